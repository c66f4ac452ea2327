#pragma once

#include <optional>
#include <string>
#include <vector>

#include "subproblem.h"
#include "tessera/solver/mip/linear_model.h"

namespace tessera::solver {

/// The programme of one order and one pair of micro-batch sizes as the papers print it, SplitQuant
/// and LLM-PQ eqs. (4)-(16): binary z_ijb (layer i on device j at bitwidth b), y_ib and u_ij, and
/// the slowest stages Tp and Td. None of our reformulations: no counts, no prefixes, no ranges.
///
/// Where the print is open or cannot be meant:
/// - (5), (6): stages also take what embeddings and LM head do, and (4) may be the steady objective
///   (solver/README.md), which adds one column, so that the optimum is that of the other forms.
/// - (8): the sums are written out in the objective.
/// - (12), (13): with what a stage holds besides its layers in its place.
/// - (15): the first layer is on the first device, the last on the last.
/// - (16): k = j would forbid neighbouring layers on one device, so k > j is read: layers go
///   forward. That leaves room for devices without a layer; where every device gets one, neighbours
///   also go no farther than "same or neighbouring stage".
/// Side constraints and a quality floor are rows over z.
class PaperFormulation {
 public:
  /// @param problem with an order. @param named columns and rows get names, for files.
  explicit PaperFormulation(const Subproblem& problem, bool named = false);

  const LinearModel& model() const { return model_; }
  double to_model(double objective) const { return objective / unit_; }
  double from_model(double objective) const { return objective * unit_; }

  /// The plan behind the column values; absent when they do not add up (numerical trouble).
  std::optional<Candidate> decode(const std::vector<double>& x) const;
  /// Column values of a plan of this order and pair that breaks nothing.
  std::vector<double> encode(const Candidate& plan) const;

 private:
  using Terms = std::vector<LinearModel::Term>;

  std::size_t z(std::size_t layer, std::size_t stage, std::size_t bit) const {
    return z_ + (layer * stages_ + stage) * bits_ + bit;
  }
  std::size_t y(std::size_t layer, std::size_t bit) const { return y_ + layer * bits_ + bit; }
  std::size_t u(std::size_t layer, std::size_t stage) const { return u_ + layer * stages_ + stage; }
  std::size_t group(std::size_t stage) const { return (*problem_.order)[stage]; }
  std::string name(const char* what, std::size_t layer, std::optional<std::size_t> stage,
                   std::optional<std::size_t> bit = {}) const;
  std::string name(const char* what, std::size_t stage) const;

  void choose_units();
  void add_times();
  void add_choices();
  void add_layer_rows();
  void add_time_rows(std::size_t stage);
  void add_time_row(const PhaseCosts& costs, double unit, std::size_t slowest, std::size_t stage,
                    const char* row);
  void add_memory_row(std::size_t stage);
  void add_order_rows();
  void add_objective();
  void add_quality_row();
  void add_side_row(const Row& row, std::size_t number);
  double ends_s(const PhaseCosts& costs, std::size_t stage) const;

  const Subproblem& problem_;
  const Instance& instance_;
  bool named_;
  std::size_t layers_, stages_, bits_;
  double unit_ = 1, prefill_unit_ = 1, decode_unit_ = 1;  ///< seconds
  LinearModel model_;
  std::size_t tp_ = 0, td_ = 0, round_ = 0, z_ = 0, y_ = 0, u_ = 0;  ///< first columns
};

}  // namespace tessera::solver
