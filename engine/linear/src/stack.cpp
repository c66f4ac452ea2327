#include "stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/moments.h"
#include "tessera/weights/tensor.h"

namespace tessera::linear {
namespace {

bool all_finite(const void* values, kernels::Real type, std::int64_t count) {
  const kernels::Matrix row{values, type, 1, count, count};
  kernels::Range range{};
  expect_ok(kernels::group_ranges(row, {0, 1}, 0, &range), "the range of weights");
  return std::isfinite(range.min);
}

bool all_finite(std::span<const float> values) {
  return all_finite(values.data(), kernels::Real::f32, std::ssize(values));
}

[[noreturn]] void refuse_weight(const std::string& name, std::int64_t row,
                                std::int64_t first_column, std::int64_t columns,
                                std::span<const float> values) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  const std::int64_t i = bad - values.begin();
  refuse(name, "weight [{}, {}] is {}; a model has finite weights, fetch the file again",
         row + i / columns, first_column + i % columns, *bad);
}

}  // namespace

Stack::Stack(const LinearSource& source) : source_(source), first_{0} {
  if (source.weights == nullptr || source.parts.empty()) {
    throw Error(ErrorCode::invalid_argument, "a linear needs weights and at least one matrix",
                "parts");
  }
  whole_columns_ = source.parts.front().in_features;
  for (const weights::LinearWeight& part : source.parts) {
    if (part.in_features != whole_columns_) {
      refuse("parts", "{} has {} input features and {} has {}; matrices of one product share them",
             weights::describe(source.parts.front()), whole_columns_, weights::describe(part),
             part.in_features);
    }
    first_.push_back(first_.back() + part.num_rows);
  }
  rows_ = source_.row_order.empty() ? first_.back() : std::ssize(source_.row_order);
  if (!source_.row_order.empty()) check_order();
  columns_ = source_.num_columns == 0 ? whole_columns_ : source_.num_columns;
  if (source_.first_column < 0 || columns_ < 1 ||
      source_.first_column > whole_columns_ - columns_) {
    refuse("columns", "{} from {} on, of the {} input features of {}", columns_,
           source_.first_column, whole_columns_, weights::describe(source.parts.front()));
  }
}

Stack::Stack(std::span<const float> values, std::int64_t rows, std::int64_t columns)
    : values_(values), rows_(rows), columns_(columns), whole_columns_(columns), first_{0, rows} {
  const auto size = static_cast<std::int64_t>(values.size());
  if (rows >= 1 && columns >= 1 && size % rows == 0 && size / rows == columns) return;
  refuse("weight", "{} values are no matrix [{}, {}]", values.size(), rows, columns);
}

void Stack::check_order() const {
  const std::int64_t rows = first_.back();
  std::vector<bool> seen(at(rows));
  for (const std::int64_t row : source_.row_order) {
    if (row < 0 || row >= rows) refuse("row_order", "{} is outside [0, {}]", row, rows - 1);
    if (seen[at(row)]) refuse("row_order", "it has row {} twice", row);
    seen[at(row)] = true;
  }
}

std::string Stack::name(std::int64_t part) const {
  if (parts().empty()) return "weight";
  const weights::LinearWeight& linear = parts()[at(part)];
  if (linear.layer_index < 0) return "tensor " + quote(linear.tensor->name, 100);
  return fmt::format("{} (tensor {})", weights::describe(linear), quote(linear.tensor->name, 100));
}

Stack::Place Stack::place_of(std::int64_t output) const {
  const std::int64_t row = source_.row_order.empty() ? output : source_.row_order[at(output)];
  const auto after = std::upper_bound(first_.begin(), first_.end(), row);
  const std::int64_t part = after - first_.begin() - 1;
  return {part, row - first_[at(part)]};
}

void Stack::read_rows(std::int64_t part, std::int64_t row, std::int64_t count, float* out) const {
  const std::span<float> room(out, at(count * whole_columns_));
  if (parts().empty()) {
    std::copy_n(values_.begin() + row * whole_columns_, count * whole_columns_, out);
  } else {
    weights::read_linear_rows_f32(*weights(), parts()[at(part)], row, count, room);
  }
  if (!all_finite(room)) refuse_weight(name(part), row, 0, whole_columns_, room);
}

void Stack::check_finite(std::int64_t part, std::int64_t row, std::span<const float> values) const {
  if (!all_finite(values)) refuse_weight(name(part), row, first_column(), columns_, values);
}

// How many outputs from `first` on are rows that follow each other in their part.
std::int64_t Stack::following(std::int64_t first, std::int64_t last) const {
  const Place from = place_of(first);
  std::int64_t count = 1;
  for (; first + count < last; ++count) {
    const Place next = place_of(first + count);
    if (next.part != from.part || next.row != from.row + count) break;
  }
  return count;
}

kernels::Matrix Stack::view(std::int64_t first, std::int64_t last, std::vector<float>& room) const {
  const std::int64_t count = last - first;
  const Place from = place_of(first);
  if (!parts().empty() && following(first, last) == count) {
    const weights::LinearWeight& part = parts()[at(from.part)];
    const auto type = weights::real_of(part.tensor->dtype);
    const std::int64_t row = part.stored_row(from.row);
    const bool together = part.stored_row(from.row + count - 1) == row + count - 1;
    if (type && together && !part.transposed && !part.is_quantised()) {
      const std::int64_t skipped = (part.offset + row * whole_columns_) * kernels::size_of(*type);
      return {weights()->bytes(*part.tensor).data() + skipped, *type, count, whole_columns_,
              whole_columns_};
    }
  }
  room.resize(std::max(room.size(), at(count * whole_columns_)));
  read_whole(first, last, room.data());
  return {room.data(), kernels::Real::f32, count, whole_columns_, whole_columns_};
}

void Stack::check_finite(std::int64_t first, const kernels::Matrix& rows) const {
  if (all_finite(rows.data, rows.type, rows.rows * rows.columns)) return;
  std::vector<float> values(at(rows.rows * rows.columns));
  read_whole(first, first + rows.rows, values.data());  // says which one
}

void Stack::read_whole(std::int64_t first, std::int64_t last, float* out) const {
  while (first < last) {
    const Place from = place_of(first);
    const std::int64_t count = following(first, last);
    read_rows(from.part, from.row, count, out);
    first += count;
    out += count * whole_columns_;
  }
}

void Stack::read(std::int64_t first, std::int64_t last, float* out) const {
  if (columns_ == whole_columns_) return read_whole(first, last, out);
  thread_local std::vector<float> whole;
  whole.resize(at((last - first) * whole_columns_));
  read_whole(first, last, whole.data());
  for (std::int64_t row = 0; row < last - first; ++row) {
    std::copy_n(whole.data() + row * whole_columns_ + first_column(), columns_,
                out + row * columns_);
  }
}

std::vector<float> Stack::read_part(std::int64_t part, int num_threads) const {
  std::vector<float> values(at(part_rows(part) * whole_columns_));
  for_rows(num_threads, part_rows(part), [&](std::int64_t first, std::int64_t last) {
    read_rows(part, first, last - first, values.data() + first * whole_columns_);
  });
  return values;
}

std::int64_t Stack::first_group(std::int64_t size) const {
  const std::int64_t first = first_column(), last = first + columns_;
  if (first % size == 0 && (last % size == 0 || last == whole_columns_)) return first / size;
  refuse(name(0),
         "columns [{}, {}) of its {} cut groups of {} that share a scale; take groups that divide "
         "{}, or other columns",
         first, last, whole_columns_, size, std::gcd(first, columns_));
}

void Stack::release() const {
  for (const weights::LinearWeight& part : parts()) weights()->release(*part.tensor);
}

Stack Stack::split(std::int64_t part) const {
  LinearSource alone = source_;
  alone.parts = {parts()[at(part)]};
  alone.row_order.clear();
  if (!source_.row_order.empty()) {
    std::int64_t first = 0;
    for (std::int64_t before = 0; before < part; ++before) first += num_outputs(before);
    const std::int64_t last = first + num_outputs(part);
    for (std::int64_t output = first; output < last; ++output) {
      const Place from = place_of(output);
      if (from.part != part) {
        refuse("row_order", "output {} of {} is a row of {}, and the two are stored differently",
               output - first, name(part), name(from.part));
      }
      alone.row_order.push_back(from.row);
    }
  }
  return Stack(alone);
}

std::int64_t Stack::num_outputs(std::int64_t part) const {
  if (source_.row_order.empty()) return part_rows(part);
  return std::ranges::count_if(source_.row_order, [&](std::int64_t row) {
    return row >= first_[at(part)] && row < first_[at(part) + 1];
  });
}

}  // namespace tessera::linear
