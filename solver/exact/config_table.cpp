#include "exact/config_table.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::solver::exact {
namespace {

std::size_t support(const std::uint16_t* counts, std::size_t bits) {
  std::size_t used = 0;
  for (std::size_t b = 0; b < bits; ++b) used += counts[b] != 0 ? 1 : 0;
  return used;
}

}  // namespace

ConfigTable::ConfigTable(const SearchSpace& space, const Admits& admits, const Keeps& keeps,
                         std::size_t max_support, std::size_t max_entries)
    : space_(space),
      bits_(space.instance().num_bits()),
      cells_(space.num_cells()),
      max_entries_(max_entries) {
  const Instance& in = space.instance();
  const auto num_classes = static_cast<std::size_t>(in.num_classes);
  classes_.resize(num_classes);
  layers_before_.assign(num_classes, {0});
  for (std::size_t i = 0; i < in.num_layers(); ++i) {
    const auto cls = static_cast<std::size_t>(in.layer_class[i]);
    for (std::size_t k = 0; k < num_classes; ++k) {
      layers_before_[k].push_back(
          static_cast<std::uint16_t>(layers_before_[k].back() + (k == cls ? 1 : 0)));
    }
    for (std::size_t b = 0; b < bits_; ++b) {
      classes_[cls].layer_omega.push_back(in.omega_at(i, b));
    }
    ++classes_[cls].num_layers;
  }
  for (std::size_t cls = 0; complete_ && cls < num_classes; ++cls) {
    build_class(cls, admits, max_support);
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

void ConfigTable::build_class(std::size_t cls, const Admits& admits, std::size_t max_support) {
  ClassTable& table = classes_[cls];
  table.begin = {0, 1};
  table.counts.assign(bits_, 0);
  table.row = {0};
  table.omega.assign(table.num_layers + 1, 0);
  for (std::size_t length = 1; complete_ && length <= table.num_layers; ++length) {
    extend_class(table, cls, length, admits, max_support);
    if (table.begin[length + 1] == table.begin[length]) break;
    const std::size_t configs = table.begin[length + 1] - table.begin[length];
    if (table.omega.size() + configs * (table.num_layers - length + 1) > max_entries_) {
      complete_ = false;
      return;
    }
    fill_rows(table, length);
  }
}

// Every configuration arises once, from itself less one layer of its highest bitwidth.
void ConfigTable::extend_class(ClassTable& table, std::size_t cls, std::size_t length,
                               const Admits& admits, std::size_t max_support) {
  std::vector<std::uint16_t> whole(cells_, 0), next;
  std::uint16_t* own = &whole[cls * bits_];
  for (std::size_t c = table.begin[length - 1]; c < table.begin[length]; ++c) {
    const std::uint16_t* from = &table.counts[c * bits_];
    std::size_t highest = 0;
    for (std::size_t b = 0; b < bits_; ++b) highest = from[b] != 0 ? b : highest;
    for (std::size_t b = highest; b < bits_; ++b) {
      std::copy(from, from + bits_, own);
      ++own[b];
      if (support(own, bits_) > max_support || !admits(whole.data())) continue;
      next.insert(next.end(), own, own + bits_);
    }
  }
  std::vector<std::size_t> by_count(next.size() / bits_);
  std::iota(by_count.begin(), by_count.end(), 0);
  const auto at = [&](std::size_t i) { return next.begin() + static_cast<std::ptrdiff_t>(i); };
  std::sort(by_count.begin(), by_count.end(), [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(at(a * bits_), at(a * bits_ + bits_), at(b * bits_),
                                        at(b * bits_ + bits_));
  });
  for (const std::size_t i : by_count) {
    table.counts.insert(table.counts.end(), at(i * bits_), at(i * bits_ + bits_));
  }
  table.begin.push_back(static_cast<std::uint32_t>(table.counts.size() / bits_));
}

// Lexicographic order survives taking one layer of a bitwidth away, so each bitwidth's
// predecessors are found by one walk along the shorter configurations.
void ConfigTable::fill_rows(ClassTable& table, std::size_t length) {
  const std::size_t starts = table.num_layers - length + 1;
  const std::size_t first = table.begin[length], last = table.begin[length + 1];
  const std::size_t offset = table.omega.size();
  for (std::size_t c = first; c < last; ++c) table.row.push_back(offset + (c - first) * starts);
  // The table is the largest thing in memory: no doubling.
  const std::size_t size = offset + (last - first) * starts;
  if (size > table.omega.capacity()) table.omega.reserve(size + size / 4);
  table.omega.resize(size, kInfinity);
  std::vector<std::uint16_t> wanted(bits_);
  for (std::size_t b = 0; b < bits_; ++b) {
    std::size_t from = table.begin[length - 1];
    for (std::size_t c = first; c < last; ++c) {
      const std::uint16_t* counts = &table.counts[c * bits_];
      if (counts[b] == 0) continue;
      std::copy(counts, counts + bits_, wanted.begin());
      --wanted[b];
      while (!std::equal(wanted.begin(), wanted.end(), &table.counts[from * bits_])) ++from;
      const double* before = &table.omega[table.row[from]];
      const double* layer = &table.layer_omega[(length - 1) * bits_ + b];
      double* out = &table.omega[table.row[c]];
      for (std::size_t a = 0; a < starts; ++a) {
        const double omega = before[a] + layer[a * bits_];
        out[a] = omega < out[a] ? omega : out[a];
      }
    }
  }
}

void ConfigTable::adopt_single_class() {
  ClassTable& table = classes_[0];
  const std::size_t lengths = table.begin.size() - 1;
  for (std::size_t length = 0; length < lengths; ++length) {
    Shape shape;
    shape.length = length;
    shape.contiguous = true;
    shape.starts.resize(table.num_layers - length + 1);
    std::iota(shape.starts.begin(), shape.starts.end(), std::uint16_t{0});
    shape.begin = table.begin[length];
    shape.end = table.begin[length + 1];
    shape.layers = {static_cast<std::uint16_t>(length)};
    shape_of_.insert(shape_of_.end(), shape.end - shape.begin, static_cast<std::uint32_t>(length));
    shapes_.push_back(std::move(shape));
  }
  counts_ = std::move(table.counts);
  row_ = std::move(table.row);
  omega_ = std::move(table.omega);
}

void ConfigTable::combine_classes(const Admits& admits, const Keeps& keeps) {
  const std::size_t layers = space_.num_layers(), num_classes = classes_.size();
  std::map<std::vector<std::uint16_t>, std::vector<std::uint16_t>> starts_of;
  for (std::size_t length = 0; length <= layers; ++length) {
    starts_of.clear();
    for (std::size_t a = 0; a + length <= layers; ++a) {
      std::vector<std::uint16_t> composition;
      for (std::size_t k = 0; k < num_classes; ++k) {
        composition.push_back(
            static_cast<std::uint16_t>(layers_before_[k][a + length] - layers_before_[k][a]));
      }
      starts_of[composition].push_back(static_cast<std::uint16_t>(a));
    }
    for (auto& [composition, starts] : starts_of) {
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
    const double* row = &table.omega[table.row[c]];
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = omega[i] + row[layers_before_[cls][shape.starts[i]]];
    }
    if (keeps(shape, counts.data(), cls + 1, sum.data())) {
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
  row_.push_back(omega_.size());
  omega_.insert(omega_.end(), omega.begin(), omega.end());
}

}  // namespace tessera::solver::exact
