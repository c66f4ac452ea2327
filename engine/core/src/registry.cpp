#include "tessera/core/registry.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera {

void refuse_unknown(std::string_view what, const std::string& name,
                    const std::vector<Card>& cards) {
  std::vector<std::string> names;
  for (const Card& card : cards) names.push_back(card.name);
  throw Error(ErrorCode::not_found,
              fmt::format("there is no {} '{}'{}", what, name, did_you_mean(name, names)),
              std::string(what));
}

}  // namespace tessera
