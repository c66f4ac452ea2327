#include "tessera/solver/deploy/serving_request.h"

#include <algorithm>
#include <limits>

#include "tessera/core/error.h"

namespace tessera {

double solver::ServingRequest::strictest_s(serving::Metric metric) const {
  double least = std::numeric_limits<double>::infinity();
  for (const serving::Slo& slo : slos) {
    const serving::LatencyTarget& target = slo.of(metric);
    least = std::min(least, target.each.value_or(least));
    for (const serving::LatencyTarget::OfAll& all : target.of_all) {
      least = std::min(least, all.limit_s);
    }
  }
  return least;
}

std::vector<std::int32_t> solver::ServingRequest::candidate_bitwidths() const {
  if (bitwidths) return *bitwidths;
  if (runtime == Runtime::tessera) return {16, 8, 4, 3};
  return {16, 8, 4};
}

std::vector<std::int32_t> solver::ServingRequest::candidate_kv_bitwidths() const {
  return kv_bitwidths.value_or(std::vector<std::int32_t>{16, 8});
}

void Fields<solver::ServingRequest>::check(const R& request, const FieldPath& path) {
  const bool none = std::all_of(request.slos.begin(), request.slos.end(),
                                [](const serving::Slo& slo) { return slo.empty(); });
  if (none) {
    refuse(path("slo"), "give limits, such as { ttft_s = { p99 = 2 }, tpot_s = { p99 = 0.05 } }");
  }
  if (request.runtime == solver::Runtime::llama_cpp) {
    refuse(path("runtime"),
           "nothing here simulates a stream on llama.cpp; give vllm or tessera, or plan a batch "
           "for it (ts.problem, `tessera plan --batch-size 1 --runtime llama.cpp`)");
  }
  const auto check_some = [&](const char* name, const auto& list) {
    if (list && list->empty())
      refuse(path(name), "an empty list leaves no engine; name one, or leave it out");
  };
  check_some("bitwidths", request.bitwidths);
  check_some("kv_bitwidths", request.kv_bitwidths);
  check_some("tensor_parallel", request.tensor_parallel);
  check_some("expert_parallel", request.expert_parallel);
  check_some("attention_data_parallel", request.attention_data_parallel);
  check_some("pipeline_parallel", request.pipeline_parallel);
  check_record(request.quality, FieldPath{path("quality"), "."});
}

}  // namespace tessera
