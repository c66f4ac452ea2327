#include "stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "slices.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/kernels/moments.h"

namespace tessera::linear {
namespace {

bool all_finite(std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const kernels::Matrix row{values.data(), kernels::Real::f32, 1, count, count};
  kernels::Range range{};
  expect_ok(kernels::group_ranges(row, {0, 1}, 0, &range), "the range of weights");
  return std::isfinite(range.min);
}

[[noreturn]] void refuse_weight(const std::string& name, std::int64_t row, std::int64_t columns,
                                std::span<const float> values) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  const std::int64_t i = bad - values.begin();
  refuse(name, "weight [{}, {}] is {}; a model has finite weights, fetch the file again",
         row + i / columns, i % columns, *bad);
}

}  // namespace

Stack::Stack(const LinearSource& source) : source_(source), first_{0} {
  if (source.weights == nullptr || source.parts.empty()) {
    throw Error(ErrorCode::invalid_argument, "a linear needs weights and at least one matrix",
                "parts");
  }
  columns_ = source.parts.front().in_features;
  for (const weights::LinearWeight& part : source.parts) {
    if (part.in_features != columns_) {
      refuse("parts", "{} has {} input features and {} has {}; matrices of one product share them",
             weights::describe(source.parts.front()), columns_, weights::describe(part),
             part.in_features);
    }
    first_.push_back(first_.back() + part.num_rows);
  }
  rows_ = first_.back();
  if (!source_.row_order.empty()) check_order();
}

Stack::Stack(std::span<const float> values, std::int64_t rows, std::int64_t columns)
    : values_(values), rows_(rows), columns_(columns), first_{0, rows} {
  const auto size = static_cast<std::int64_t>(values.size());
  if (rows >= 1 && columns >= 1 && size % rows == 0 && size / rows == columns) return;
  refuse("weight", "{} values are no matrix [{}, {}]", values.size(), rows, columns);
}

void Stack::check_order() const {
  const std::vector<std::int64_t>& order = source_.row_order;
  if (static_cast<std::int64_t>(order.size()) != rows_) {
    refuse("row_order", "it has {} rows and the stack {}", order.size(), rows_);
  }
  std::vector<bool> seen(order.size());
  for (const std::int64_t row : order) {
    if (row < 0 || row >= rows_) refuse("row_order", "{} is outside [0, {}]", row, rows_ - 1);
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
  const std::span<float> room(out, at(count * columns_));
  if (parts().empty()) {
    std::copy_n(values_.begin() + row * columns_, count * columns_, out);
  } else {
    weights::read_linear_rows_f32(*weights(), parts()[at(part)], row, count, room);
  }
  check_finite(part, row, room);
}

void Stack::check_finite(std::int64_t part, std::int64_t row, std::span<const float> values) const {
  if (!all_finite(values)) refuse_weight(name(part), row, columns_, values);
}

void Stack::read(std::int64_t first, std::int64_t last, float* out) const {
  while (first < last) {
    const Place from = place_of(first);
    std::int64_t count = 1;  // rows that follow each other there too
    for (; first + count < last; ++count) {
      const Place next = place_of(first + count);
      if (next.part != from.part || next.row != from.row + count) break;
    }
    read_rows(from.part, from.row, count, out);
    first += count;
    out += count * columns_;
  }
}

std::vector<float> Stack::read_part(std::int64_t part, int num_threads) const {
  std::vector<float> values(at(part_rows(part) * columns_));
  for_rows(num_threads, part_rows(part), [&](std::int64_t first, std::int64_t last) {
    read_rows(part, first, last - first, values.data() + first * columns_);
  });
  return values;
}

void Stack::release() const {
  for (const weights::LinearWeight& part : parts()) weights()->release(*part.tensor);
}

Stack Stack::split(std::int64_t part) const {
  const std::int64_t first = first_[at(part)], rows = part_rows(part);
  LinearSource alone{source_.weights, {parts()[at(part)]}, {}};
  if (!source_.row_order.empty()) {
    for (std::int64_t output = first; output < first + rows; ++output) {
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

}  // namespace tessera::linear
