#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/lm/generate.h"

namespace tessera::lm {

void check_tokens(const LanguageModel& model, const std::vector<std::int32_t>& ids,
                  const std::string& path) {
  if (ids.empty()) refuse(path, "there is no token; the text is empty");
  const std::int64_t vocab_size = model.shape().vocab_size;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    refuse(ErrorCode::out_of_range, path, "token {} is {}; {} has tokens 0 to {}", i + 1, ids[i],
           model.shape().name, vocab_size - 1);
  }
  const std::int64_t longest = model.shape().max_context_tokens;
  if (static_cast<std::int64_t>(ids.size()) > longest) {
    refuse(ErrorCode::out_of_range, path,
           "{} tokens are more than the context of {}, {} tokens; shorten it", ids.size(),
           model.shape().name, longest);
  }
}

Sequence::Sequence(const LanguageModel& model, std::int64_t max_tokens)
    : model_(model), slots_(model, 1, std::max<std::int64_t>(max_tokens, 1)) {}

void Sequence::add(std::span<const std::int32_t> tokens, std::span<float> logits) {
  const std::int64_t after = num_tokens_ + static_cast<std::int64_t>(tokens.size());
  const SequenceStep step{
      .tokens = tokens,
      .context_tokens = num_tokens_,
      .block_table = slots_.blocks(0, after),
      .num_logits = static_cast<std::int64_t>(logits.size()) / model_.shape().vocab_size};
  model_.step({&step, 1}, slots_.cache(), logits);
  num_tokens_ = after;
}

std::vector<float> logits_of(const LanguageModel& model, const std::vector<std::int32_t>& ids,
                             const std::function<bool()>& interrupted) {
  check_tokens(model, ids, "ids");
  const auto vocab_size = static_cast<std::size_t>(model.shape().vocab_size);
  std::vector<float> logits(ids.size() * vocab_size);
  Sequence sequence(model, static_cast<std::int64_t>(ids.size()));
  for (std::size_t done = 0; done < ids.size();) {
    if (interrupted && interrupted()) {
      throw Error(ErrorCode::interrupted,
                  fmt::format("interrupted after {} of {} tokens", done, ids.size()));
    }
    const std::size_t count = std::min<std::size_t>(ids.size() - done, kChunkTokens);
    sequence.add(std::span(ids).subspan(done, count),
                 std::span(logits).subspan(done * vocab_size, count * vocab_size));
    done += count;
  }
  return logits;
}

}  // namespace tessera::lm
