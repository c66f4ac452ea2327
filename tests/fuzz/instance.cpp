// Abstract instances, and the first things that a planner asks of one.
#include "tessera/solver/instance/instance.h"

#include "target.h"
#include "tessera/solver/instance/instance_file.h"

TESSERA_FUZZ_TARGET(instance) {
  using namespace tessera;
  return fuzz::read(data, size, [](std::string_view text) {
    const auto instance = solver::instance_from_json(parse_json(text, "input"), "input");
    fuzz::require(instance.num_layers() > 0 && instance.num_devices() > 0, "an empty instance");
    solver::Candidate candidate;
    candidate.order = {0};
    candidate.first_layer = {0, instance.num_layers()};
    candidate.bit.assign(instance.num_layers(), instance.num_bits() - 1);
    candidate.decode_micro_batch_size = instance.batch_size;
    const auto evaluation = solver::evaluate(instance, candidate);
    fuzz::require(evaluation.objective == evaluation.objective, "an objective that is no number");
    (void)solver::find_violation(instance, candidate, evaluation.objective);
  });
}
