#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "search_space.h"

namespace tessera::solver::exact {

/// Configurations of a stage, that is, how many of its layers of each class have each bitwidth, and
/// the least omega of each on every interval of layers it can stand for, by a dynamic programme
/// (solver/README.md, Exact search): W_a(c) = min_b W_a(c - e_b) + omega[a + l - 1][b]. One table
/// serves all devices, orders and micro-batch sizes. Pipelines of one or two stages need the
/// intervals at the model's two ends only, so their tables hold no others.
class ConfigTable {
 public:
  /// Intervals with the same number of layers of every class.
  struct Shape {
    std::size_t length = 0;
    std::vector<std::uint16_t> starts;  ///< first layers, ascending
    bool contiguous = false;            ///< starts are 0, 1, 2, ...
    std::uint32_t begin = 0, end = 0;   ///< its configurations
    std::vector<std::uint16_t> layers;  ///< [class]
  };
  /// Whether some stage can hold these layers: [cell] counts. Fewer layers must pass as well.
  using Admits = std::function<bool(const std::uint16_t* counts)>;

  /// Whether to keep a configuration, by its omegas. With several classes it is asked class by
  /// class, with one as the layers are added; `whole` when no layer is left to choose for. What it
  /// refuses must not become worth keeping by further layers.
  using Keeps = std::function<bool(const Shape& shape, const std::uint16_t* counts,
                                   std::size_t num_classes, bool whole, const double* omega)>;

  /// Holds the admitted configurations with at most `max_support` bitwidths per class. Gives up,
  /// and is not `complete`, above `max_entries` omegas.
  ConfigTable(const SearchSpace& space, const Admits& admits, const Keeps& keeps,
              std::size_t max_support, std::size_t max_entries);

  bool complete() const { return complete_; }
  std::size_t num_configs() const { return shape_of_.size(); }
  std::size_t num_entries() const { return omega_.size(); }
  std::size_t max_length() const { return max_length_; }
  const std::vector<Shape>& shapes() const { return shapes_; }
  std::size_t shape_of(std::size_t config) const { return shape_of_[config]; }
  const std::uint16_t* counts(std::size_t config) const { return &counts_[config * cells_]; }
  /// Least omega by index into the shape's `starts`.
  const double* omega(std::size_t config) const { return &omega_[first_omega_[config]]; }
  /// Index of a first layer in the shape's starts, or starts.size() when it is none of them.
  std::size_t index_of(const Shape& shape, std::size_t start) const;

 private:
  // One class on its own: layers of the class are numbered 0, 1, ...; interval [a, a + l).
  struct ClassTable {
    std::vector<std::uint32_t> begin;      ///< [length + 1] first configuration of each length
    std::vector<std::uint16_t> counts;     ///< [config][bit]
    std::vector<std::size_t> first_omega;  ///< [config] in omega
    std::vector<double> omega;
    std::vector<std::vector<double>> layer_omega;  ///< [bit][layer of the class]
    std::size_t num_layers = 0;
  };

  void build_class(std::size_t cls, const Admits& admits, const Keeps& keeps,
                   std::size_t max_support);
  void extend_class(ClassTable& table, std::size_t cls, std::size_t length, const Admits& admits,
                    const Keeps& keeps, std::size_t max_support);
  void lower_omegas(const ClassTable& table, std::size_t length, std::size_t from, std::size_t bit,
                    std::vector<double>& omegas) const;
  void append(ClassTable& table, const std::uint16_t* counts, const std::vector<double>& omegas);
  std::vector<std::uint16_t> starts_of(std::size_t num_layers, std::size_t length) const;
  void adopt_single_class();
  void combine_classes(const Admits& admits, const Keeps& keeps);
  /// Chooses the counts of class `cls` and the later ones; `omega` is that of the earlier ones.
  void combine(const Shape& shape, std::size_t cls, std::vector<std::uint16_t>& counts,
               const std::vector<double>& omega, const Admits& admits, const Keeps& keeps);
  void add_combined(const std::vector<std::uint16_t>& counts, const std::vector<double>& omega);

  const SearchSpace& space_;
  std::size_t bits_ = 0, cells_ = 0, max_entries_ = 0, max_length_ = 0;
  bool complete_ = true;
  bool ends_only_ = false;  ///< omegas are those of the first layers and the last, in this order
  std::vector<ClassTable> classes_;
  std::vector<std::vector<std::uint16_t>> layers_before_;  ///< [class][layer]
  std::vector<Shape> shapes_;
  std::vector<std::uint32_t> shape_of_;
  std::vector<std::uint16_t> counts_;
  std::vector<std::size_t> first_omega_;
  std::vector<double> omega_;
};

}  // namespace tessera::solver::exact
