// Items of zero-shot tasks, JSON lines: the first byte says of which task.
#include "tessera/lm/zero_shot.h"

#include "readable.h"
#include "target.h"

TESSERA_FUZZ_TARGET(zero_shot) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view input) {
    const auto task = static_cast<lm::ZeroShotTask>(
        input.empty() ? 0 : static_cast<unsigned char>(input.front()) % 4);
    const fuzz::MemoryFile file(input.substr(std::min<std::size_t>(1, input.size())));
    const auto items = lm::read_zero_shot(task, file.path(), 0);
    fuzz::require(!items.empty(), "a file without items");
    for (const lm::ZeroShotItem& item : items) {
      fuzz::require(item.answer < item.continuations.size(), "an answer that is no choice");
      for (const std::string& text : item.continuations)
        fuzz::require(!text.empty(), "a choice without text");
    }
  });
}
