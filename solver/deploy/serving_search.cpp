#include "tessera/solver/deploy/serving_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "tessera/core/cluster_part.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

using serving::Role;

// Requests come for so many times as long as they stay; below 8 max_rate notes that a longer run
// may sustain less.
constexpr double kStaysWanted = 8.5, kMostRequests = 200'000;

constexpr double kLargestShare = 100;  // of unlike engines, so that the others are known to 1 %

/// Against the largest, in whole numbers, as routers that are launched want them.
void scale_shares(std::vector<DeploymentPart>& parts) {
  double most = 0;
  for (const DeploymentPart& part : parts) most = std::max(most, part.share);
  for (DeploymentPart& part : parts) {
    part.share = std::max(1.0, std::round(kLargestShare * part.share / most));
  }
}

/// The least that stands in the way: of memory the engine that lacks the fewest bytes, of other
/// causes the first that was met.
const Refusal* nearest(const std::vector<Refusal>& refusals, Cause cause) {
  const Refusal* best = nullptr;
  for (const Refusal& each : refusals) {
    if (each.cause != cause || each.nobody_asked) continue;
    if (best == nullptr || (each.missing_bytes && *each.missing_bytes < *best->missing_bytes)) {
      best = &each;
    }
  }
  return best;
}

}  // namespace

std::string refusal_lines(const std::vector<Refusal>& refusals) {
  std::string lines;
  for (const Cause cause :
       {Cause::memory, Cause::latency, Cause::quality, Cause::kernels, Cause::devices}) {
    const Refusal* one = nearest(refusals, cause);
    if (one == nullptr) continue;
    std::set<std::string> engines;
    for (const Refusal& each : refusals) {
      if (each.cause == cause && !each.nobody_asked) engines.insert(each.engine);
    }
    const std::string what =
        one->missing_bytes ? fmt::format("lacks {} on a device", format_bytes(*one->missing_bytes))
                           : one->reason;
    lines += fmt::format("\n  {}: {}{}: {}", name_of(cause), one->engine,
                         engines.size() > 1 ? fmt::format(" and {} more", engines.size() - 1) : "",
                         what);
  }
  return lines;
}

bool has_unlike(const std::vector<DeploymentPart>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const DeploymentPart& part) { return part.engine->is_unlike(); });
}

std::int64_t num_engines(const std::vector<DeploymentPart>& parts) {
  std::int64_t count = 0;
  for (const DeploymentPart& part : parts) count += part.count;
  return count;
}

double residence_of(const std::vector<DeploymentPart>& parts) {
  double residence_s = 0;
  for (const DeploymentPart& part : parts) {
    residence_s = std::max(residence_s, part.engine->residence_s);
  }
  return residence_s;
}

std::vector<DeploymentPart> ServingSearch::shared_out(std::vector<DeploymentPart> parts) const {
  for (DeploymentPart& part : parts) {
    const PricedConfiguration& c = *part.engine;
    const double stays_s = c.found->served->summary.e2e_s.mean.value_or(c.residence_s);
    part.share = c.rate_per_s * (sends_in_turn_ ? 1 : stays_s);
  }
  scale_shares(parts);
  return parts;
}

std::optional<std::vector<DeploymentPart>> with_more_to_the_small(std::vector<DeploymentPart> parts,
                                                                  double factor) {
  const std::vector<DeploymentPart> before = parts;
  for (DeploymentPart& part : parts) {
    if (part.share < kLargestShare) part.share = std::min(kLargestShare, factor * part.share);
  }
  scale_shares(parts);
  const auto same = [](const auto& a, const auto& b) { return a.share == b.share; };
  if (std::equal(parts.begin(), parts.end(), before.begin(), same)) return std::nullopt;
  return parts;
}

std::string layout_of(const std::vector<DeploymentPart>& parts) {
  std::vector<std::string> words;
  for (const DeploymentPart& part : parts) {
    const std::string role =
        part.role == Role::mixed ? std::string{} : fmt::format("{} ", name_of(part.role));
    words.push_back(fmt::format("{}{} x {}", role, part.count, part.engine->shape()));
  }
  return join(words, " + ");
}

ServingSearch::ServingSearch(const ServingRequest& request, const DataFolders& folders,
                             std::string path)
    : request_(request),
      folders_(folders),
      types_(device_types(*request.cluster)),
      traffic_(std::make_shared<SearchTraffic>(request.traffic, request.num_requests,
                                               path + ".traffic")),
      ttft_limit_s_(request.strictest_s(serving::Metric::ttft_s)),
      tpot_limit_s_(request.strictest_s(serving::Metric::tpot_s)),
      sends_in_turn_(request.make_router(request.router)->sends_in_turn()) {}

std::optional<std::vector<std::vector<std::size_t>>> ServingSearch::place(
    const std::vector<DeploymentPart>& parts) const {
  std::vector<DeploymentShape> shapes;
  for (const DeploymentPart& part : parts) {
    shapes.push_back(part.engine->placed(part.count, part.role));
  }
  const auto placement = try_place(*request_.model, *request_.cluster, shapes);
  if (!placement) return std::nullopt;
  std::vector<std::vector<std::size_t>> placed(parts.size());
  auto engine = placement->engines.begin();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::int64_t r = 0; r < parts[i].count; ++r) {
      for (const auto& members : stage_devices(*placement, *engine++, *request_.cluster)) {
        placed[i].insert(placed[i].end(), members.begin(), members.end());
      }
    }
    std::sort(placed[i].begin(), placed[i].end());
  }
  return placed;
}

PoolOptions ServingSearch::pool_of(const Configuration& configuration, std::int64_t count,
                                   Role role, const std::vector<std::size_t>& devices) const {
  PoolOptions pool;
  pool.role = role;
  pool.model = request_.model;
  pool.cluster = std::make_shared<Cluster>(part_of(*request_.cluster, devices));
  pool.tensor_parallel = configuration.tensor_parallel;
  pool.expert_parallel = configuration.split.expert_parallel;
  pool.attention_data_parallel = configuration.split.attention_data_parallel;
  pool.pipeline_parallel = configuration.pipeline_parallel;
  pool.stage_layers = configuration.stage_layers;
  pool.replicas = count;
  pool.bitwidths = {configuration.bitwidth};
  pool.kv_bitwidth = configuration.kv_bitwidth;
  pool.kernel_set = request_.kernel_set;
  pool.engine = request_.engine.engine;
  pool.engine.max_num_seqs = configuration.max_num_seqs;
  pool.engine.max_num_batched_tokens = configuration.max_num_batched_tokens;
  // Where nothing is shared a prefix cache finds nothing, and only takes time to simulate.
  if (!request_.engine.enable_prefix_caching) {
    pool.engine.enable_prefix_caching = traffic_->shares();
  }
  return pool;
}

/// The link that keys and values take: the slowest from the first to the others of the devices that
/// are used. vLLM's decode engines read them when a prompt is done, Tessera's get them layer by
/// layer while it runs.
std::optional<serving::KvTransfer> ServingSearch::transfer_over(
    const std::vector<std::vector<std::size_t>>& placed) const {
  std::vector<std::size_t> used;
  for (const auto& devices : placed) used.insert(used.end(), devices.begin(), devices.end());
  std::sort(used.begin(), used.end());
  std::optional<Link> slowest;
  for (std::size_t k = 1; k < used.size(); ++k) {
    const Link link = request_.cluster->link(used[0], used[k]);
    if (!slowest || link.bytes_per_s < slowest->bytes_per_s) slowest = link;
  }
  if (!slowest) return std::nullopt;
  return serving::KvTransfer{.bytes_per_s = slowest->bytes_per_s,
                             .latency_s = slowest->latency_s,
                             .per_layer = request_.runtime != Runtime::vllm};
}

DeploymentOptions ServingSearch::options_of(
    const std::vector<DeploymentPart>& parts,
    const std::vector<std::vector<std::size_t>>& placed) const {
  DeploymentOptions options;
  std::vector<PoolOptions> pools;
  bool hands_over = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    pools.push_back(pool_of(*parts[i].engine, parts[i].count, parts[i].role, placed[i]));
    pools.back().share = parts[i].share;
    hands_over = hands_over || parts[i].role == Role::prefill;
  }
  if (parts.size() == 1) {
    options.pool = std::move(pools.front());
  } else {
    options.pools = std::move(pools);
  }
  if (hands_over) options.transfer = transfer_over(placed).value_or(serving::KvTransfer{});
  options.router = request_.router;
  options.make_router = request_.make_router;
  options.make_scheduler = request_.make_scheduler;
  options.prices = prices_;
  return options;
}

std::shared_ptr<const AssembledDeployment> ServingSearch::deploy(
    const std::vector<DeploymentPart>& parts, Refusal& why_not) {
  why_not = {parts.size() > 1 ? layout_of(parts) : parts.front().engine->name()};
  std::string key;
  for (const DeploymentPart& part : parts) {
    key += fmt::format("{} {} {} {} {} {};", name_of(part.role), part.count, part.engine->name(),
                       part.engine->max_num_seqs, part.engine->max_num_batched_tokens, part.share);
  }
  std::shared_ptr<const AssembledDeployment>& known = deployed_[key];
  if (known != nullptr) return known;
  try {
    if (const auto placed = place(parts)) {
      known = std::make_shared<AssembledDeployment>(
          assemble(options_of(parts, *placed), folders_, "ts.deployment"));
    }
  } catch (const DoesNotFit& error) {
    why_not.cause = Cause::memory;
    why_not.reason = error.message();
    why_not.missing_bytes = error.missing_bytes();
  } catch (const Error& error) {  // what the runtime does not read is no error
    if (error.code() == ErrorCode::interrupted) throw;
    why_not.cause = Cause::kernels;
    why_not.reason = error.message();
  }
  return known;
}

serving::MaxRate ServingSearch::max_rate(const AssembledDeployment& deployment, RateQuery query) {
  ++simulated;
  double least = 0;
  if (query.residence_s) {
    least = kStaysWanted * *query.residence_s * std::max(query.guess_per_s, query.least_per_s);
  }
  const auto run = [&](const serving::Traffic& traffic) {
    serving::MaxRateOptions options;
    options.summary = summary_options(deployment, traffic);
    options.summary.slos = request_.slos;
    options.tolerance = query.tolerance;
    options.max_runs = query.max_runs.value_or(options.max_runs);
    options.least_rate_per_s = query.least_per_s;
    options.guess_per_s = query.guess_per_s;
    options.poll = request_.poll;
    return serving::max_rate(deployment.deployment, traffic, options);
  };
  auto traffic = traffic_->of(query.num_engines, std::min(least, kMostRequests));
  serving::MaxRate found = run(*traffic);
  if (found.note.empty() || !traffic_->sized() || query.max_runs) return found;
  const double stayed_s = found.served->summary.e2e_s.mean.value_or(0);
  const double wanted = std::min(kStaysWanted * found.rate_per_s * stayed_s, kMostRequests);
  if (wanted <= static_cast<double>(traffic->requests.size())) return found;
  query.guess_per_s = found.rate_per_s;
  return run(*traffic_->of(query.num_engines, wanted));
}

std::shared_ptr<const serving::MaxRate> ServingSearch::sustained(
    const std::vector<DeploymentPart>& parts, const RateQuery& query) {
  Refusal why_not;
  const auto deployment = deploy(parts, why_not);
  if (deployment == nullptr) {
    if (!why_not.reason.empty()) refusals.push_back(std::move(why_not));
    return nullptr;
  }
  auto found = std::make_shared<serving::MaxRate>(max_rate(*deployment, query));
  if (found->rate_per_s > 0) return found;
  refuse(why_not.engine, Cause::latency, found->limited_by);
  return nullptr;
}

}  // namespace tessera::solver
