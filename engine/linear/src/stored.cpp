#include "tessera/quant/stored.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "forms.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::linear {
namespace {

// Parts that one product cannot hold: a product each, side by side.
class SplitLinear final : public Linear {
 public:
  explicit SplitLinear(std::vector<std::unique_ptr<Linear>> parts)
      : Linear(rows_of(parts), parts.front()->in_features()), parts_(std::move(parts)) {}

  void apply(const float* x, std::int64_t x_stride, std::int64_t tokens, float* out,
             std::int64_t out_stride, int num_threads) const override {
    check_product(*this, x, x_stride, tokens, out, out_stride);
    if (tokens == 0) return;
    for (const auto& part : parts_) {
      part->apply(x, x_stride, tokens, out, out_stride, num_threads);
      out += part->out_features();
    }
  }

  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const auto& part : parts_) sum += part->bytes();
    return sum;
  }

  std::string describe() const override {
    std::vector<std::string> different;
    for (const auto& part : parts_) {
      if (std::find(different.begin(), different.end(), part->describe()) == different.end())
        different.push_back(part->describe());
    }
    return join(different, " + ");
  }

  std::span<const std::unique_ptr<Linear>> parts() const override { return parts_; }

  void dequantise(std::int64_t first, std::int64_t last, float* out) const override {
    std::int64_t begin = 0;
    for (const auto& part : parts_) {
      const std::int64_t end = begin + part->out_features();
      const std::int64_t from = std::max(first, begin), to = std::min(last, end);
      if (from < to) {
        part->dequantise(from - begin, to - begin, out);
        out += (to - from) * in_features();
      }
      begin = end;
    }
  }

 private:
  static std::int64_t rows_of(const std::vector<std::unique_ptr<Linear>>& parts) {
    std::int64_t sum = 0;
    for (const auto& part : parts) sum += part->out_features();
    return sum;
  }

  std::vector<std::unique_ptr<Linear>> parts_;
};

enum class Kind { numbers, blocks, codes };

Kind kind_of(const weights::LinearWeight& part) {
  if (part.codes) return Kind::codes;
  return has_block_kernel(part.tensor->dtype) && part.is_contiguous() ? Kind::blocks
                                                                      : Kind::numbers;
}

// One type for all blocks of a product.
bool can_be_one(const weights::LinearWeight& a, const weights::LinearWeight& b) {
  return kind_of(a) == kind_of(b) &&
         (kind_of(a) != Kind::blocks || a.tensor->dtype == b.tensor->dtype);
}

bool same(const quant::StoredCodes& a, const quant::StoredCodes& b) {
  const quant::Scheme &x = a.codes.scheme, &y = b.codes.scheme;
  return a.int8_activations == b.int8_activations && x.bitwidth == y.bitwidth &&
         x.symmetric == y.symmetric && x.granularity == y.granularity &&
         (x.granularity != quant::Granularity::group || x.group_size == y.group_size) &&
         x.scale_type == y.scale_type;
}

std::unique_ptr<Linear> make_split(const Stack& stack, const LinearForm& form, int num_threads) {
  std::vector<std::unique_ptr<Linear>> parts;
  for (std::int64_t part = 0; part < stack.num_parts(); ++part) {
    if (stack.num_outputs(part) > 0)
      parts.push_back(make_stored(stack.split(part), form, num_threads));
  }
  return side_by_side(std::move(parts));
}

std::vector<quant::StoredCodes> read_all(const Stack& stack, int num_threads) {
  std::vector<quant::StoredCodes> found;
  for (const weights::LinearWeight& part : stack.parts())
    found.push_back(quant::read_codes(*stack.weights(), part, num_threads));
  return found;
}

std::unique_ptr<Linear> make_of_codes(const Stack& stack, const LinearForm& form, int num_threads) {
  std::vector<quant::StoredCodes> found = read_all(stack, num_threads);
  for (const quant::StoredCodes& part : found) {
    if (!same(part, found.front())) return make_split(stack, form, num_threads);
    // Groups whose columns lie apart are no groups of the kernels.
    if (!part.codes.group_index.empty()) return make_dense_of_codes(stack, form, num_threads);
  }
  const bool int8 = found.front().int8_activations;
  std::vector<quant::Quantised> parts;
  for (quant::StoredCodes& part : found) parts.push_back(std::move(part.codes));
  return int8 ? make_int8(stack, form, parts, num_threads)
              : make_codes(stack, form, parts, num_threads);
}

}  // namespace

std::unique_ptr<Linear> side_by_side(std::vector<std::unique_ptr<Linear>> parts) {
  return std::make_unique<SplitLinear>(std::move(parts));
}

std::unique_ptr<Linear> make_stored(const Stack& stack, const LinearForm& form, int num_threads) {
  const weights::LinearWeight& first = stack.parts().front();
  for (const weights::LinearWeight& part : stack.parts()) {
    if (!can_be_one(first, part)) return make_split(stack, form, num_threads);
  }
  switch (kind_of(first)) {
    case Kind::codes:
      return make_of_codes(stack, form, num_threads);
    case Kind::blocks:
      return make_blocks(stack, form, num_threads);
    case Kind::numbers:
      break;
  }
  return make_dense(stack, form, num_threads);
}

std::unique_ptr<Linear> make_dense_of_codes(const Stack& stack, const LinearForm& form,
                                            int num_threads) {
  std::vector<std::vector<float>> parts;
  std::string of;
  for (std::int64_t part = 0; part < stack.num_parts(); ++part) {
    const weights::LinearWeight& linear = stack.parts()[static_cast<std::size_t>(part)];
    if (linear.codes) of = " of codes";
    parts.push_back(
        linear.codes ? quant::read_codes(*stack.weights(), linear, num_threads).codes.dequantised()
                     : stack.read_part(part, num_threads));
  }
  std::vector<float> values;
  for (std::int64_t output = 0; output < stack.rows(); ++output) {
    const Stack::Place from = stack.place_of(output);
    const auto row = parts[static_cast<std::size_t>(from.part)].begin() +
                     from.row * stack.whole_columns() + stack.first_column();
    values.insert(values.end(), row, row + stack.columns());
  }
  stack.release();
  return make_dense(Stack(values, stack.rows(), stack.columns()), form, num_threads, of);
}

}  // namespace tessera::linear
