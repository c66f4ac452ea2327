#include "config_table.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "kernels.h"

namespace tessera::solver::exact {
namespace {

std::size_t support(const std::uint16_t* counts, std::size_t bits) {
  std::size_t used = 0;
  for (std::size_t b = 0; b < bits; ++b) used += counts[b] != 0 ? 1 : 0;
  return used;
}

// Lexicographic comparison of `counts`, with one more layer of `bit`, to `other`.
int one_more_compares(const std::uint16_t* counts, std::size_t bit, const std::uint16_t* other,
                      std::size_t bits) {
  for (std::size_t b = 0; b < bits; ++b) {
    const int difference = counts[b] + (b == bit ? 1 : 0) - other[b];
    if (difference != 0) return difference;
  }
  return 0;
}

}  // namespace

ConfigTable::ConfigTable(const SearchSpace& space, const Admits& admits, const Keeps& keeps,
                         std::size_t max_support, std::size_t max_entries)
    : space_(space),
      bits_(space.instance().num_bits()),
      cells_(space.num_cells()),
      max_entries_(max_entries),
      ends_only_(space.num_positions() <= 2) {
  const Instance& in = space.instance();
  const auto num_classes = static_cast<std::size_t>(in.num_classes);
  classes_.resize(num_classes);
  for (ClassTable& table : classes_) table.layer_omega.resize(bits_);
  layers_before_.assign(num_classes, {0});
  for (std::size_t i = 0; i < in.num_layers(); ++i) {
    const auto cls = static_cast<std::size_t>(in.layer_class[i]);
    for (std::size_t k = 0; k < num_classes; ++k) {
      layers_before_[k].push_back(
          static_cast<std::uint16_t>(layers_before_[k].back() + (k == cls ? 1 : 0)));
    }
    for (std::size_t b = 0; b < bits_; ++b) {
      classes_[cls].layer_omega[b].push_back(in.omega_at(i, b));
    }
    ++classes_[cls].num_layers;
  }
  for (std::size_t cls = 0; complete_ && cls < num_classes; ++cls) {
    build_class(cls, admits, keeps, max_support);
  }
  if (!complete_) return;
  if (num_classes == 1) {
    adopt_single_class();
  } else {
    combine_classes(admits, keeps);
  }
  for (const Shape& shape : shapes_) {
    if (shape.end > shape.begin) max_length_ = std::max(max_length_, shape.length);
  }
}

std::size_t ConfigTable::index_of(const Shape& shape, std::size_t start) const {
  if (shape.contiguous) return std::min(start, shape.starts.size());
  const auto it = std::lower_bound(shape.starts.begin(), shape.starts.end(), start);
  if (it == shape.starts.end() || *it != start) return shape.starts.size();
  return static_cast<std::size_t>(it - shape.starts.begin());
}

void ConfigTable::build_class(std::size_t cls, const Admits& admits, const Keeps& keeps,
                              std::size_t max_support) {
  ClassTable& table = classes_[cls];
  table.begin = {0, 1};
  table.counts.assign(bits_, 0);
  table.first_omega = {0};
  table.omega.assign(starts_of(table.num_layers, 0).size(), 0);
  for (std::size_t length = 1; complete_ && length <= table.num_layers; ++length) {
    extend_class(table, cls, length, admits, keeps, max_support);
    if (table.begin[length + 1] == table.begin[length]) break;
  }
}

// First layers of the intervals of a length. At both ends when there is nothing between them.
std::vector<std::uint16_t> ConfigTable::starts_of(std::size_t num_layers,
                                                  std::size_t length) const {
  const auto last = static_cast<std::uint16_t>(num_layers - length);
  if (ends_only_) return {0, last};
  std::vector<std::uint16_t> starts(last + 1u);
  std::iota(starts.begin(), starts.end(), std::uint16_t{0});
  return starts;
}

// Lexicographic order survives adding one layer of a bitwidth, so what arises from the shorter
// configurations, bitwidth by bitwidth, is merged from as many sorted lists.
void ConfigTable::extend_class(ClassTable& table, std::size_t cls, std::size_t length,
                               const Admits& admits, const Keeps& keeps, std::size_t max_support) {
  const std::size_t end = table.begin[length];
  Shape shape;
  shape.length = length;
  shape.starts = starts_of(table.num_layers, length);
  shape.layers = {static_cast<std::uint16_t>(length)};
  std::vector<std::uint16_t> whole(cells_, 0);
  std::uint16_t* own = &whole[cls * bits_];
  std::vector<std::size_t> from(bits_, table.begin[length - 1]);
  std::vector<double> omegas(shape.starts.size());
  while (complete_) {
    std::size_t least = bits_;
    for (std::size_t b = 0; b < bits_; ++b) {
      if (from[b] == end) continue;
      const std::uint16_t* counts = &table.counts[from[b] * bits_];
      if (least == bits_ || one_more_compares(counts, b, own, bits_) < 0) {
        std::copy_n(counts, bits_, own);
        ++own[b];
        least = b;
      }
    }
    if (least == bits_) break;
    const bool admitted = support(own, bits_) <= max_support && admits(whole.data());
    std::fill(omegas.begin(), omegas.end(), kInfinity);
    for (std::size_t b = least; b < bits_; ++b) {
      if (from[b] == end) continue;
      if (one_more_compares(&table.counts[from[b] * bits_], b, own, bits_) != 0) continue;
      if (admitted) lower_omegas(table, length, from[b], b, omegas);
      ++from[b];
    }
    if (!admitted) continue;
    if (classes_.size() == 1 && !keeps(shape, own, 1, false, omegas.data())) continue;
    append(table, own, omegas);
  }
  table.begin.push_back(static_cast<std::uint32_t>(table.first_omega.size()));
}

// Takes the omegas of a shorter configuration with one more layer behind it, where that is less;
// at the end of the model the layer comes before it.
void ConfigTable::lower_omegas(const ClassTable& table, std::size_t length, std::size_t from,
                               std::size_t bit, std::vector<double>& omegas) const {
  const double* before = &table.omega[table.first_omega[from]];
  const double* layer = table.layer_omega[bit].data();
  if (ends_only_) {
    omegas[0] = std::min(omegas[0], before[0] + layer[length - 1]);
    omegas[1] = std::min(omegas[1], before[1] + layer[table.num_layers - length]);
  } else {
    min_sum(omegas.data(), before, layer + (length - 1), omegas.size());
  }
}

void ConfigTable::append(ClassTable& table, const std::uint16_t* counts,
                         const std::vector<double>& omegas) {
  const std::size_t size = table.omega.size() + omegas.size();
  if (size > max_entries_) {
    complete_ = false;
    return;
  }
  // The table is the largest thing in memory: no doubling.
  if (size > table.omega.capacity()) table.omega.reserve(size + size / 4);
  table.first_omega.push_back(table.omega.size());
  table.omega.insert(table.omega.end(), omegas.begin(), omegas.end());
  table.counts.insert(table.counts.end(), counts, counts + bits_);
}

void ConfigTable::adopt_single_class() {
  ClassTable& table = classes_[0];
  const std::size_t lengths = table.begin.size() - 1;
  for (std::size_t length = 0; length < lengths; ++length) {
    Shape shape;
    shape.length = length;
    shape.starts = starts_of(table.num_layers, length);
    if (length == table.num_layers) shape.starts.resize(1);
    shape.contiguous = shape.starts.back() + 1u == shape.starts.size();
    shape.begin = table.begin[length];
    shape.end = table.begin[length + 1];
    shape.layers = {static_cast<std::uint16_t>(length)};
    shape_of_.insert(shape_of_.end(), shape.end - shape.begin, static_cast<std::uint32_t>(length));
    shapes_.push_back(std::move(shape));
  }
  counts_ = std::move(table.counts);
  first_omega_ = std::move(table.first_omega);
  omega_ = std::move(table.omega);
}

void ConfigTable::combine_classes(const Admits& admits, const Keeps& keeps) {
  const std::size_t layers = space_.num_layers(), num_classes = classes_.size();
  std::map<std::vector<std::uint16_t>, std::vector<std::uint16_t>> alike;
  for (std::size_t length = 0; length <= layers; ++length) {
    alike.clear();
    for (const std::uint16_t a : starts_of(layers, length)) {
      std::vector<std::uint16_t> composition;
      for (std::size_t k = 0; k < num_classes; ++k) {
        composition.push_back(
            static_cast<std::uint16_t>(layers_before_[k][a + length] - layers_before_[k][a]));
      }
      std::vector<std::uint16_t>& starts = alike[composition];
      if (starts.empty() || starts.back() != a) starts.push_back(a);
    }
    for (auto& [composition, starts] : alike) {
      Shape shape;
      shape.length = length;
      shape.contiguous = starts.back() + 1u == starts.size();
      shape.starts = std::move(starts);
      shape.layers = composition;
      shape.begin = static_cast<std::uint32_t>(shape_of_.size());
      std::vector<std::uint16_t> counts(cells_, 0);
      combine(shape, 0, counts, std::vector<double>(shape.starts.size(), 0), admits, keeps);
      shape.end = static_cast<std::uint32_t>(shape_of_.size());
      shapes_.push_back(std::move(shape));
      if (!complete_) return;
    }
  }
}

void ConfigTable::combine(const Shape& shape, std::size_t cls, std::vector<std::uint16_t>& counts,
                          const std::vector<double>& omega, const Admits& admits,
                          const Keeps& keeps) {
  if (!complete_) return;
  if (cls == classes_.size()) return add_combined(counts, omega);
  const ClassTable& table = classes_[cls];
  const std::size_t length = shape.layers[cls];
  if (length + 1 >= table.begin.size()) return;
  const auto own = counts.begin() + static_cast<std::ptrdiff_t>(cls * bits_);
  std::vector<double> sum(omega.size());
  for (std::uint32_t c = table.begin[length]; c < table.begin[length + 1]; ++c) {
    std::copy_n(&table.counts[c * bits_], bits_, own);
    if (!admits(counts.data())) continue;
    const double* omegas = &table.omega[table.first_omega[c]];
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::uint16_t start = shape.starts[i];
      sum[i] = omega[i] + omegas[ends_only_ ? (start == 0 ? 0u : 1u) : layers_before_[cls][start]];
    }
    if (keeps(shape, counts.data(), cls + 1, cls + 1 == classes_.size(), sum.data())) {
      combine(shape, cls + 1, counts, sum, admits, keeps);
    }
  }
  std::fill_n(own, bits_, std::uint16_t{0});
}

void ConfigTable::add_combined(const std::vector<std::uint16_t>& counts,
                               const std::vector<double>& omega) {
  if (omega_.size() + omega.size() > max_entries_) {
    complete_ = false;
    return;
  }
  shape_of_.push_back(static_cast<std::uint32_t>(shapes_.size()));
  counts_.insert(counts_.end(), counts.begin(), counts.end());
  first_omega_.push_back(omega_.size());
  omega_.insert(omega_.end(), omega.begin(), omega.end());
}

}  // namespace tessera::solver::exact
