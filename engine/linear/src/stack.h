#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/linear/linear.h"
#include "tessera/quant/quantise.h"

namespace tessera::linear {

/// The rows and columns that a LinearSource asks for, or values in memory, in the order of the
/// outputs. "Whole" rows have the columns of other ranks too.
class Stack {
 public:
  /// @throws Error{invalid_argument} for no parts, parts of different inputs, an order that is none
  explicit Stack(const LinearSource& source);
  Stack(std::span<const float> values, std::int64_t rows, std::int64_t columns);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t first_column() const { return source_.first_column; }
  std::int64_t whole_columns() const { return whole_columns_; }
  const weights::Weights* weights() const { return source_.weights.get(); }
  /// Empty for values in memory, which are one part without a name.
  const std::vector<weights::LinearWeight>& parts() const { return source_.parts; }
  std::int64_t num_parts() const { return static_cast<std::int64_t>(first_.size()) - 1; }
  /// As it is stored, with rows that are no outputs.
  std::int64_t part_rows(std::int64_t part) const {
    return first_[at(part) + 1] - first_[at(part)];
  }
  /// "layer 3 q_proj (tensor 'blk.3.attn_q.weight')"
  std::string name(std::int64_t part) const;

  struct Place {
    std::int64_t part, row;  ///< row of the part
  };
  Place place_of(std::int64_t output) const;

  /// Outputs [first, last) as f32. @throws Error{invalid_argument} naming the tensor where a weight
  /// is not finite, and as read_linear_rows_f32
  void read(std::int64_t first, std::int64_t last, float* out) const;
  void read_whole(std::int64_t first, std::int64_t last, float* out) const;
  /// Outputs [first, last), whole rows as the file has them where they follow each other there as
  /// numbers; else read into `room`. Not checked: weights may be no numbers.
  kernels::Matrix view(std::int64_t first, std::int64_t last, std::vector<float>& room) const;
  /// @throws Error{invalid_argument} as `read` for rows of a `view` from output `first` on
  void check_finite(std::int64_t first, const kernels::Matrix& rows) const;
  /// All of one part, whole rows in their own order; as `read`.
  std::vector<float> read_part(std::int64_t part, int num_threads) const;
  /// @throws Error{invalid_argument} as `read` for one of `values`, rows of a part from `row` on
  void check_finite(std::int64_t part, std::int64_t row, std::span<const float> values) const;
  /// Pages of the file are no longer needed.
  void release() const;

  /// The group of `size` columns in which the columns begin. @throws Error{invalid_argument} where
  /// they end or begin inside of one
  std::int64_t first_group(std::int64_t size) const;

  /// One part on its own, in the order of its outputs. @throws Error{invalid_argument} where the
  /// order mixes parts
  Stack split(std::int64_t part) const;
  /// Of the outputs, how many are of the part.
  std::int64_t num_outputs(std::int64_t part) const;

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  void check_order() const;
  std::int64_t following(std::int64_t first, std::int64_t last) const;
  void read_rows(std::int64_t part, std::int64_t row, std::int64_t count, float* out) const;

  LinearSource source_;
  std::span<const float> values_;
  std::int64_t rows_ = 0, columns_ = 0, whole_columns_ = 0;
  std::vector<std::int64_t> first_;  ///< rows of the stack before each part, and all of them
};

}  // namespace tessera::linear
