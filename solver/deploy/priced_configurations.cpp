#include "tessera/solver/deploy/priced_configurations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "tessera/core/cluster_part.h"
#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/deploy/runtime_rules.h"
#include "tessera/solver/deploy/step_mix.h"
#include "tessera/solver/plan/launch_rules.h"
#include "tessera/solver/serving/deployment_plans.h"
#include "tessera/solver/serving/server_request.h"

namespace tessera::solver {
namespace {

using Priced = std::shared_ptr<PricedConfiguration>;

// Limits that are tried where they are not settled: seats, the few where memory has no room for
// more, and tokens of a step, each time a quarter of what was tried before.
constexpr std::int64_t kSeats[] = {256, 512, 1024};
constexpr std::int64_t kFewSeats = 64;
constexpr std::int64_t kMostTokens = 8192, kLeastTokens = 256;
constexpr std::int64_t kFewer = 4;

void set_limits(const ServingSearch& search, Configuration& configuration, std::int64_t num_seqs,
                std::int64_t tokens) {
  const SettledEngine& settled = search.request().engine;
  configuration.max_num_seqs = settled.max_num_seqs ? settled.engine.max_num_seqs : num_seqs;
  configuration.max_num_batched_tokens =
      settled.max_num_batched_tokens ? settled.engine.max_num_batched_tokens : tokens;
}

/// Why the quality that was asked for does not allow it; empty where it does.
std::string quality_obstacle(const QualityBound& bound, std::int32_t bitwidth,
                             const AssembledDeployment& deployment) {
  const std::optional<Quality>& quality = deployment.quality;
  if (!bound.is_set()) return {};
  if (!quality && bitwidth < 8) return fmt::format("nothing is known of {} bits", bitwidth);
  if (!quality) return {};
  const bool high = bound.at == BoundAt::high;
  const Band &rise = quality->perplexity_increase, &kept = quality->accuracy_recovery;
  const double loss = high ? rise.high : rise.mid, recovery = high ? kept.low : kept.mid;
  if (bound.max_perplexity_increase && loss > *bound.max_perplexity_increase) {
    return fmt::format("perplexity may rise by {:.1f} %", 100 * loss);
  }
  if (bound.min_accuracy_recovery && recovery < *bound.min_accuracy_recovery) {
    return fmt::format("accuracy may fall to {:.1f} %", 100 * recovery);
  }
  return {};
}

/// The estimate by the best number of seats: more help as long as steps stay within the limit on
/// TPOT.
void estimate(const ServingSearch& search, PricedConfiguration& c,
              std::span<const std::int64_t> all_seats) {
  const serving::Replica& engine = c.one->deployment.replicas.front();
  const std::int64_t tokens = c.max_num_batched_tokens;
  std::int64_t best_seats = 0;
  for (const std::int64_t seats : all_seats) {
    set_limits(search, c, seats, kMostTokens);
    StepLimits limits{c.max_num_seqs, c.max_num_batched_tokens, search.tpot_limit_s()};
    const EngineBounds bounds = bounds_of(engine, search.lengths(), limits);
    limits.max_num_batched_tokens = tokens;
    const SteadyRate steady = steady_rate(engine, search.lengths(), limits, bounds.rate_per_s);
    if (best_seats == 0 || steady.rate_per_s > kBetterBy * c.estimate_per_s) {
      c.bounds = bounds;
      c.estimate_per_s = steady.rate_per_s;
      c.residence_s = steady.decode_s + bounds.ttft_s;
      best_seats = c.max_num_seqs;
    }
    if (c.decode_num_seqs == 0 ||
        bounds.decode_rate_per_s > kBetterBy * c.decode_bounds.decode_rate_per_s) {
      c.decode_bounds = bounds;
      c.decode_num_seqs = c.max_num_seqs;
    }
    if (search.request().engine.max_num_seqs) break;
  }
  c.max_num_seqs = best_seats;
  c.max_num_batched_tokens = tokens;
}

void check_phases(ServingSearch& search, PricedConfiguration& c) {
  c.may_prefill = c.bounds.ttft_s <= search.ttft_limit_s();
  c.may_decode = c.bounds.tpot_s <= search.tpot_limit_s();
  if (!c.may_prefill) {
    search.refuse(c.name(), Cause::latency,
                  fmt::format("a prompt alone takes {:.3g} s, {:.3g} s allowed", c.bounds.ttft_s,
                              search.ttft_limit_s()));
  } else if (!c.may_decode) {
    search.refuse(c.name(), Cause::latency,
                  fmt::format("a token alone takes {:.3g} s, {:.3g} s allowed", c.bounds.tpot_s,
                              search.tpot_limit_s()));
  }
}

/// Deploys one engine, with few seats where more leave its cache too little for as many requests.
/// Says whether there is room for more.
bool deploy_one(ServingSearch& search, const Priced& c, Refusal& why_not) {
  set_limits(search, *c, kSeats[0], kMostTokens);
  c->one = search.deploy({{c, 1}}, why_not);
  const double tokens = search.lengths().prompt_tokens + search.lengths().output_tokens;
  const auto holds = [&](std::int64_t seats) {
    const serving::Replica& engine = c->one->deployment.replicas.front();
    return static_cast<double>(engine.kv_tokens()) >= static_cast<double>(seats) * tokens;
  };
  if (c->one != nullptr ? holds(kFewSeats) : why_not.cause != Cause::memory) return true;
  set_limits(search, *c, kFewSeats, c->type->usual_tokens);
  Refusal still;
  auto one = search.deploy({{c, 1}}, still);
  if (one == nullptr) return false;
  const std::int64_t held = one->deployment.replicas.front().kv_tokens();
  const std::int64_t wanted = least_cache_tokens(*search.request().model);
  if (held >= wanted) {
    c->one = std::move(one);
    return false;
  }
  c->one = nullptr;
  why_not = {c->name(), Cause::memory,
             fmt::format("its KV cache holds {} tokens; a server that takes prompts of 4,000 needs "
                         "{}",
                         held, wanted)};
  return false;
}

/// Adds a configuration where nothing rules it out. Says whether the model fits.
bool add(ServingSearch& search, const Configuration& shape, std::vector<Priced>& list) {
  search.poll();
  const ServingRequest& request = search.request();
  auto priced = std::make_shared<PricedConfiguration>();
  PricedConfiguration& c = *priced;
  static_cast<Configuration&>(c) = shape;
  c.capacity = room_for(*request.cluster, c.placed());
  if (c.capacity == 0) return false;
  const auto obstructs = [&](const std::string& obstacle) {
    if (obstacle.empty()) return false;
    search.refuse(c.name(), Cause::kernels, obstacle);
    search.refusals.back().nobody_asked = c.kv_bitwidth < kMaxKvBitwidth && !request.kv_bitwidths;
    if (!search.refusals.back().nobody_asked) search.obstructed = true;
    return true;
  };
  if (obstructs(kernel_obstacle(request.runtime, *request.model, *request.cluster, c))) return true;
  Refusal why_not;
  const bool has_room = deploy_one(search, priced, why_not);
  if (c.one == nullptr) {
    search.refusals.push_back(std::move(why_not));
    return false;
  }
  const std::string loss = quality_obstacle(request.quality, c.bitwidth, *c.one);
  if (!loss.empty()) {
    search.refuse(c.name(), Cause::quality, loss);
    return true;
  }
  if (obstructs(engine_obstacle(request.runtime, c, *c.one, request.kernel_set == "auto"))) {
    return true;
  }
  c.checkpoint = checkpoint_of(*c.one->context, c.one->placement->engines.front());
  c.most_tokens = has_room ? kMostTokens : c.type->usual_tokens;
  c.is_cramped = c.one->deployment.replicas.front().kv_tokens() <
                 least_cache_tokens(*request.model, kLongRequestTokens);
  set_limits(search, c, kSeats[0], c.type->usual_tokens);
  estimate(search, c, has_room ? std::span(kSeats) : std::span(&kFewSeats, 1));
  check_phases(search, c);
  list.push_back(std::move(priced));
  return true;
}

/// With as few stages as hold the model, unless they are given.
void add_stages(ServingSearch& search, Configuration shape, std::vector<Priced>& list) {
  if (const auto& given = search.request().pipeline_parallel) {
    for (const std::int64_t stages : *given) {
      shape.pipeline_parallel = stages;
      if (shape.gpus() > shape.type->count) {
        search.refuse(shape.name(), Cause::devices, fmt::format("there are {}", shape.type->count));
      } else {
        add(search, shape, list);
      }
    }
    return;
  }
  for (; shape.gpus() <= shape.type->count; shape.pipeline_parallel *= 2) {
    if (add(search, shape, list)) return;
  }
}

/// As given, else powers of two up to the widest node.
std::vector<std::int64_t> degrees_of(const ServingRequest& request, const TypeDevices& type) {
  if (request.tensor_parallel) return *request.tensor_parallel;
  std::vector<std::int64_t> degrees;
  for (std::int64_t degree = 1; degree <= type.widest(); degree *= 2) degrees.push_back(degree);
  return degrees;
}

/// Whether devices of a group would hold the same keys and values.
bool copies_cache(const ModelShape& model, std::int64_t degree) {
  const auto& classes = model.layer_classes;
  return std::any_of(classes.begin(), classes.end(), [&](const LayerShape& layer) {
    return layer.attends() && (layer.latent_width.has_value() || layer.num_kv_heads < degree);
  });
}

/// How a group may divide a layer: as given, else by tensor parallelism alone, and of models with
/// experts with these spread, and beside that with attention in parts where devices would hold
/// copies of one cache.
std::vector<cost::GroupSplit> splits_of(const ServingRequest& request, std::int64_t degree) {
  const auto& spread = request.expert_parallel;
  const auto& parts = request.attention_data_parallel;
  std::vector<cost::GroupSplit> splits;
  const auto add = [&](std::int64_t attention, std::int64_t experts) {
    const cost::GroupSplit split{attention, experts};
    if (std::find(splits.begin(), splits.end(), split) == splits.end()) splits.push_back(split);
  };
  if (spread || parts) {
    for (const std::int64_t attention : parts.value_or(std::vector<std::int64_t>{1})) {
      for (const std::int64_t experts : spread.value_or(std::vector<std::int64_t>{1, degree})) {
        add(attention, experts);
      }
    }
    return splits;
  }
  add(1, 1);
  if (degree == 1 || !cost::has_experts(*request.model)) return splits;
  const std::size_t num_asked = splits.size();
  add(1, degree);
  if (copies_cache(*request.model, degree)) add(degree, degree);
  const auto is_uneven = [&](const cost::GroupSplit& split) {
    return cost::why_not_sharded(*request.model, degree, split).has_value();
  };
  splits.erase(std::remove_if(splits.begin() + static_cast<std::ptrdiff_t>(num_asked), splits.end(),
                              is_uneven),
               splits.end());
  return splits;
}

/// Every degree, split, bitwidth and KV cache on devices of a type.
template <class Visit>
void for_each_shape(ServingSearch& search, const std::shared_ptr<const TypeDevices>& type,
                    const Visit& visit) {
  Configuration shape{.type = type};
  for (const std::int64_t degree : degrees_of(search.request(), *type)) {
    if (degree > type->widest()) {
      search.refuse(fmt::format("{}x{}", degree, type->name), Cause::devices,
                    fmt::format("the largest node has {}", type->widest()));
      continue;
    }
    shape.tensor_parallel = degree;
    for (const cost::GroupSplit& split : splits_of(search.request(), degree)) {
      shape.split = split;
      for (const std::int32_t bitwidth : search.request().candidate_bitwidths()) {
        shape.bitwidth = bitwidth;
        for (const std::int32_t kv_bitwidth : search.request().candidate_kv_bitwidths()) {
          shape.kv_bitwidth = kv_bitwidth;
          visit(shape);
        }
      }
    }
  }
}

/// Whether engines of the shape are alike, each over all of its types.
bool is_over_all(const ServingRequest& request, const Configuration& shape) {
  const auto all = try_place(*request.model, *request.cluster, {shape.placed()});
  if (!all) return false;
  const auto groups_of = [](const PlacedEngine& engine) {
    std::vector<std::string> groups;
    for (const PlacedStage& stage : engine.stages) groups.push_back(stage.device);
    return groups;
  };
  const std::vector<std::string> groups = groups_of(all->engines.front());
  std::set<std::string> types;
  for (const std::string& group : groups) {
    for (std::string& type : types_in(group)) types.insert(std::move(type));
  }
  return types.size() == shape.type->types.size() &&
         std::all_of(all->engines.begin(), all->engines.end(),
                     [&](const auto& engine) { return groups_of(engine) == groups; });
}

/// The layers that suit the mean request of the traffic, by as many of these together as fit, or of
/// few longer ones that fill the cache of a server; empty where none fits.
std::vector<std::int64_t> split_of(const ServingSearch& search, const Configuration& shape) {
  const ServingRequest& request = search.request();
  auto engine = std::make_shared<PricedConfiguration>();
  static_cast<Configuration&>(*engine) = shape;
  const Cluster part = part_of(*request.cluster, search.place({{engine, 1}})->front());
  const cost::PricingContext context = cost::pricing_context(*request.model, part, {shape.bitwidth},
                                                             request.kernel_set, search.folders());
  const Placement one = place(context.model, part, shape.placed(1));
  Workload workload;
  workload.output_tokens = std::max(1.0, search.lengths().output_tokens);
  workload.max_output_tokens = static_cast<std::int64_t>(std::ceil(workload.output_tokens));
  const auto held = static_cast<double>(least_cache_tokens(*request.model));
  for (workload.batch_size = kSeats[0]; workload.batch_size >= 1; workload.batch_size /= 4) {
    workload.prompt_tokens =
        std::max({1.0, search.lengths().prompt_tokens,
                  held / static_cast<double>(workload.batch_size) - workload.output_tokens});
    workload.max_prompt_tokens = static_cast<std::int64_t>(std::ceil(workload.prompt_tokens));
    auto layers = balanced_layers(context, one, one.engines.front(), workload);
    if (!layers.empty()) return layers;
  }
  return {};
}

/// Equal engines over groups of a degree: of as few stages as hold the model, and of as few that
/// leave no group over; of one where groups are unlike themselves.
void add_cut(ServingSearch& search, Configuration shape, std::vector<Priced>& list) {
  const ServingRequest& request = search.request();
  shape.pipeline_parallel = 1;
  const std::int64_t groups = room_for(*request.cluster, shape.placed());
  const auto& given = request.pipeline_parallel;
  bool is_found = false;
  for (std::int64_t stages = 1; stages <= std::min(groups, request.model->num_layers); ++stages) {
    const bool takes_all = groups % stages == 0;
    if (is_found && !takes_all) continue;
    if (given && std::find(given->begin(), given->end(), stages) == given->end()) continue;
    shape.pipeline_parallel = stages;
    try {
      shape.stage_layers.clear();
      if (!is_over_all(request, shape)) continue;
      if (stages > 1) shape.stage_layers = split_of(search, shape);
      if ((stages > 1 && shape.stage_layers.empty()) || !add(search, shape, list)) continue;
      if (takes_all) return;
      is_found = true;
    } catch (const Error& error) {  // as in ServingSearch::deploy
      if (error.code() == ErrorCode::interrupted) throw;
      search.refuse(shape.name(), Cause::kernels, error.message());
      return;
    }
  }
}

void add_unlike(ServingSearch& search, const std::shared_ptr<const TypeDevices>& types,
                std::vector<Priced>& list) {
  for_each_shape(search, types, [&](const Configuration& shape) {
    const ServingRequest& request = search.request();
    if (!shape.split.is_plain()) return;
    if (kernel_obstacle(request.runtime, *request.model, *request.cluster, shape).empty()) {
      add_cut(search, shape, list);
    }
  });
}

}  // namespace

std::vector<Priced> priced_configurations(ServingSearch& search,
                                          const std::shared_ptr<const TypeDevices>& type) {
  std::vector<Priced> list;
  for_each_shape(search, type,
                 [&](const Configuration& shape) { add_stages(search, shape, list); });
  return list;
}

std::vector<Priced> unlike_configurations(ServingSearch& search) {
  std::vector<Priced> list;
  const DeviceTypes& types = search.types();
  if (!search.request().unlike_devices) return list;
  for (std::size_t a = 0; a < types.size(); ++a) {
    for (std::size_t b = a + 1; b < types.size(); ++b) {
      add_unlike(search, joined({types[a], types[b]}), list);
    }
  }
  if (types.size() > 2) add_unlike(search, joined(types), list);
  return list;
}

PricedPtr in_pool(const ServingSearch& search, const PricedConfiguration& configuration,
                  serving::Role role) {
  auto own = std::make_shared<PricedConfiguration>(configuration);
  const bool decodes = role == serving::Role::decode;
  if (decodes) own->bounds = configuration.decode_bounds;
  set_limits(
      search, *own,
      decodes ? configuration.decode_num_seqs : std::min(kSeats[0], configuration.max_num_seqs),
      configuration.most_tokens);
  return own;
}

Priced with_fewer_tokens(const ServingSearch& search, const PricedConfiguration& configuration,
                         serving::Role role) {
  if (search.request().engine.max_num_batched_tokens) return nullptr;
  const std::int64_t before = configuration.max_num_batched_tokens;
  const std::int64_t least = role == serving::Role::mixed ? kLeastTokens : kUsualTokens;
  const std::int64_t tokens = std::max(least, before / kFewer);
  if (tokens >= before) return nullptr;
  auto other = std::make_shared<PricedConfiguration>(configuration);
  set_limits(search, *other, configuration.max_num_seqs, tokens);
  if (role == serving::Role::mixed && !other->usual_rate_per_s) {
    other->usual_rate_per_s = configuration.rate_per_s;
  }
  return other;
}

Refusal simulate_alone(ServingSearch& search, const Priced& engine, double least_per_s) {
  PricedConfiguration& c = *engine;
  Refusal why_not;
  auto one = search.deploy({{engine, 1}}, why_not);
  if (one == nullptr && c.max_num_seqs > kSeats[0]) {
    // The memory that sampling for more requests takes is missing.
    set_limits(search, c, kSeats[0], c.max_num_batched_tokens);
    one = search.deploy({{engine, 1}}, why_not);
  }
  c.rate_per_s = 0;
  if (one == nullptr) return why_not;
  c.one = std::move(one);
  c.found =
      std::make_shared<serving::MaxRate>(search.max_rate(*c.one, {.guess_per_s = c.estimate_per_s,
                                                                  .least_per_s = least_per_s,
                                                                  .residence_s = c.residence_s,
                                                                  .tolerance = 0.06}));
  c.rate_per_s = c.found->rate_per_s;
  return {c.name(), Cause::latency, c.found->limited_by};
}

Priced holding(ServingSearch& search, Priced c) {
  while (c->rate_per_s <= 0) {
    const Priced other = with_fewer_tokens(search, *c, serving::Role::mixed);
    if (other == nullptr) break;
    simulate_alone(search, other);
    c = other;
  }
  return c;
}

Priced tuned(ServingSearch& search, Priced c, double bar_per_s) {
  while (const Priced other = with_fewer_tokens(search, *c, serving::Role::mixed)) {
    const bool is_usual = other->max_num_batched_tokens >= kUsualTokens;
    simulate_alone(search, other,
                   std::max(bar_per_s, c->rate_per_s * (is_usual ? kBetterBy : kWorthIt)));
    if (other->rate_per_s <= 0) break;
    c = other;
  }
  return c;
}

}  // namespace tessera::solver
