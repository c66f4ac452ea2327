#include "step.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::lm {
namespace {

template <class T>
Memory upload(const Backend& backend, const std::vector<T>& values) {
  return backend.upload(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)));
}

void check(const SequenceStep& sequence, std::size_t index, const ModelShape& shape,
           std::int64_t num_blocks, std::int64_t block_size) {
  const std::string where = fmt::format("sequence {}", index);
  const auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
  if (tokens == 0) refuse(where, "has no tokens");
  if (sequence.context_tokens < 0 || sequence.context_tokens > shape.max_context_tokens - tokens) {
    refuse(ErrorCode::out_of_range, where,
           "{} tokens after {} are more than the {} of the longest context of {}", tokens,
           sequence.context_tokens, shape.max_context_tokens, shape.name);
  }
  if (sequence.num_logits < 0 || sequence.num_logits > tokens) {
    refuse(ErrorCode::out_of_range, where, "logits of {} tokens are asked for, of {}",
           sequence.num_logits, tokens);
  }
  for (const std::int32_t token : sequence.tokens) {
    if (token < 0 || token >= shape.vocab_size) {
      refuse(ErrorCode::out_of_range, where, "token {} is not in the vocabulary, [0, {})", token,
             shape.vocab_size);
    }
  }
  const auto length =
      static_cast<std::size_t>((sequence.context_tokens + tokens + block_size - 1) / block_size);
  if (sequence.block_table.size() < length) {
    refuse(ErrorCode::out_of_range, where, "{} tokens need {} blocks of {}, and its table has {}",
           sequence.context_tokens + tokens, length, block_size, sequence.block_table.size());
  }
  for (std::size_t i = 0; i < length; ++i) {
    if (sequence.block_table[i] < 0 || sequence.block_table[i] >= num_blocks) {
      refuse(ErrorCode::out_of_range, where, "block {} is not in the cache, [0, {})",
             sequence.block_table[i], num_blocks);
    }
  }
}

// The table of a rope for the positions of a step, sequence by sequence.
std::vector<float> rows_of(const Rope& rope, const std::vector<std::int32_t>& positions,
                           const std::vector<std::int32_t>& starts) {
  std::vector<float> table(positions.size() * static_cast<std::size_t>(rope.width));
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto first = static_cast<std::size_t>(starts[s]);
    const auto last = static_cast<std::size_t>(starts[s + 1]);
    const std::int64_t length = positions[last - 1] + 1;
    const bool others = rope.short_tokens > 0 && length > rope.short_tokens;
    const std::vector<double> grown =
        others ? long_frequencies_at(rope, length) : std::vector<double>();
    const std::vector<double>& frequencies = others ? grown : rope.inverse_frequencies;
    for (std::size_t i = first; i < last; ++i) {
      rope_row(rope, frequencies, positions[i],
               table.data() + i * static_cast<std::size_t>(rope.width));
    }
  }
  return table;
}

}  // namespace

Step make_step(std::span<const SequenceStep> batch, const Description& description,
               std::int64_t num_blocks, std::int64_t block_size, const Backend& backend) {
  if (batch.empty()) refuse("step", "the batch is empty");
  Step step;
  std::vector<std::int32_t> starts = {0}, contexts, blocks;
  std::vector<std::int64_t> slots;
  for (const SequenceStep& sequence : batch) {
    check(sequence, contexts.size(), description.shape, num_blocks, block_size);
    step.tables.max_blocks =
        std::max(step.tables.max_blocks, static_cast<std::int64_t>(sequence.block_table.size()));
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      const std::int64_t position = sequence.context_tokens + static_cast<std::int64_t>(i);
      step.tokens.push_back(sequence.tokens[i]);
      step.positions.push_back(static_cast<std::int32_t>(position));
      const std::int64_t block =
          sequence.block_table[static_cast<std::size_t>(position / block_size)];
      slots.push_back(block * block_size + position % block_size);
    }
    const auto block_of = [&](std::int64_t position) {
      return sequence.block_table[static_cast<std::size_t>(position / block_size)];
    };
    const std::int64_t before = sequence.context_tokens, count = std::ssize(sequence.tokens);
    step.sequences.push_back({.first = step.num_tokens,
                              .count = count,
                              .context_tokens = before,
                              .from_block = before > 0 ? block_of(before - 1) : -1,
                              .to_block = block_of(before + count - 1)});
    step.num_tokens = static_cast<std::int64_t>(step.tokens.size());
    for (std::int64_t i = sequence.num_logits; i > 0; --i)
      step.logit_rows.push_back(step.num_tokens - i);
    starts.push_back(static_cast<std::int32_t>(step.num_tokens));
    contexts.push_back(step.positions.back() + 1);
  }
  for (const SequenceStep& sequence : batch) {
    blocks.insert(blocks.end(), sequence.block_table.begin(), sequence.block_table.end());
    blocks.resize(blocks.size() + static_cast<std::size_t>(step.tables.max_blocks) -
                  sequence.block_table.size());
  }
  step.tables.num_sequences = static_cast<std::int64_t>(batch.size());
  step.tables.query_start = upload(backend, starts);
  step.tables.context_tokens = upload(backend, contexts);
  step.tables.block_table = upload(backend, blocks);
  step.tables.slots = upload(backend, slots);
  for (const Rope& rope : description.ropes)
    step.cos_sin.push_back(upload(backend, rows_of(rope, step.positions, starts)));
  return step;
}

}  // namespace tessera::lm
