// The search over the papers' own programme: Algorithm 1, every order and every pair of micro-batch
// sizes for itself, without bounds, cutoffs or starts from one to the next.

#include <algorithm>
#include <cmath>

#include "ilp_search.h"
#include "model_file.h"
#include "paper_formulation.h"
#include "tessera/core/error.h"
#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver {

void IlpSearch::solve_paper_pair(Pair& pair) {
  double least = kFree;
  bool all = true;
  const auto solve = [&](const std::vector<std::size_t>& order) {
    const Subproblem problem(instance_, order, pair.prefill, pair.decode);
    const Proof proof = solve_paper(problem);
    least = std::min(least, proof.bound);
    all = all && proof.finished;
  };
  if (request_.order) {
    solve(*request_.order);
  } else {
    DeviceOrders orders(instance_, instance_.least_stages());
    while (const auto order = orders.next()) {
      if (stopped()) {
        all = false;
        least = -kFree;
        break;
      }
      solve(*order);
    }
  }
  pair.bound = least;
  pair.solved = all;
}

IlpSearch::Proof IlpSearch::solve_paper(const Subproblem& problem) {
  const PaperFormulation formulation(problem);
  MipLimits limits;
  limits.time_limit_s = deadline_.left_s();
  limits.relative_gap = request_.gap;
  limits.preprocess =
      true;  // as any solver would: the print has many columns that it can do without
  if (request_.cutoff) limits.cutoff = formulation.to_model(*request_.cutoff);
  if (request_.start && request_.start->order == *problem.order &&
      request_.start->prefill_micro_batch_size == problem.prefill_size &&
      request_.start->decode_micro_batch_size == problem.decode_size) {
    limits.start = formulation.encode(*request_.start);
  }
  // CBC ends itself at the limit, with its bound; it is cut short, without one, when it does not.
  limits.should_stop = [this] {
    const auto reached = deadline_.reached();
    return reached == SolveStatus::interrupted ||
           (reached && deadline_.elapsed_s() > 1.05 * request_.time_limit_s + 0.1);
  };
  const MipResult mip = solve_mip(formulation.model(), limits);
  // A solution that does not survive exact arithmetic leaves the programme undecided.
  if (mip.x) {
    const auto plan = formulation.decode(*mip.x);
    if (!plan || !offer(*plan)) gave_up_ = true;
  }
  return {std::isfinite(mip.bound) ? formulation.from_model(mip.bound) : mip.bound, mip.finished};
}

void IlpSearch::write_paper(const std::string& path) const {
  if (!request_.order) {
    const std::string where = "problem:write_model.device_order";
    refuse(where, "form \"paper\" is the programme of one order of devices; name them");
  }
  const Subproblem problem(instance_, request_.order, *request_.prefill_micro_batch_size,
                           *request_.decode_micro_batch_size);
  write_model_file(PaperFormulation(problem, true).model(), path);
}

}  // namespace tessera::solver
