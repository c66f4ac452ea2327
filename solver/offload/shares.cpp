#include "tessera/core/json.h"
#include "tessera/solver/offload/offload_shares.h"

namespace tessera::solver {
namespace {

constexpr double kMostBytes = 1e300;  // sums and percentages of what a file says stay finite
constexpr std::int64_t kMostRequests = 1'000'000;

Json to_json(const TierRatios& ratios) {
  return Json{{"device", ratios.device}, {"host", ratios.host}, {"disk", ratios.disk}};
}

TierRatios ratios_from_json(JsonFields& parent, const char* name) {
  if (!parent.has(name)) return {};
  JsonFields fields(parent.at(name), parent.path_of(name));
  TierRatios ratios;
  ratios.device = fields.number("device", 0, 1, 0);
  ratios.host = fields.number("host", 0, 1, 0);
  ratios.disk = fields.number("disk", 0, 1, 0);
  fields.finish();
  return ratios;
}

}  // namespace

Json to_json(const StageOffload& offload) {
  return Json{{"weights", to_json(offload.weights)},
              {"kv_cache", to_json(offload.kv_cache)},
              {"activations", to_json(offload.activations)},
              {"host_bytes", offload.host_bytes},
              {"disk_bytes", offload.disk_bytes}};
}

StageOffload stage_offload_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  StageOffload offload;
  offload.weights = ratios_from_json(fields, "weights");
  offload.kv_cache = ratios_from_json(fields, "kv_cache");
  offload.activations = ratios_from_json(fields, "activations");
  offload.host_bytes = fields.number("host_bytes", 0, kMostBytes, 0);
  offload.disk_bytes = fields.number("disk_bytes", 0, kMostBytes, 0);
  fields.finish();
  return offload;
}

Json to_json(const PlanOffload& offload) {
  return Json{{"gpu_batch_size", offload.gpu_batch_size},
              {"host_memory_ratio", offload.host_memory_ratio},
              {"host_attention_bytes_per_s", offload.host_attention_bytes_per_s}};
}

PlanOffload plan_offload_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  PlanOffload offload;
  offload.gpu_batch_size = fields.integer("gpu_batch_size", 1, kMostRequests);
  offload.host_memory_ratio = fields.number("host_memory_ratio", 0, 1, offload.host_memory_ratio);
  offload.host_attention_bytes_per_s =
      fields.number("host_attention_bytes_per_s", 1, 1e18, offload.host_attention_bytes_per_s);
  fields.finish();
  return offload;
}

}  // namespace tessera::solver
