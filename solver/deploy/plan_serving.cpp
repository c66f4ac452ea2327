#include "tessera/solver/deploy/plan_serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "ranking.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/solver/deploy/priced_configurations.h"

namespace tessera::solver {
namespace {

using Priced = std::shared_ptr<PricedConfiguration>;
using serving::Role;

/// By what they are estimated to do on all devices of their type; then by name, so that the order
/// is the same each time.
bool by_estimate(const Priced& a, const Priced& b) {
  const double x = a->estimate_per_s * static_cast<double>(a->capacity);
  const double y = b->estimate_per_s * static_cast<double>(b->capacity);
  return x != y ? x > y : a->name() < b->name();
}

/// Which of a list, in the order of estimates, may be the one to stand beside engines of other
/// types: the first of each bitwidth, and those of other shapes that are about as good for each
/// device, as they need not fill their type.
class BesideOthers {
 public:
  bool take(const PricedConfiguration& c) {
    const double estimate = c.estimate_per_s / static_cast<double>(c.gpus());
    const double first = first_.try_emplace(c.bitwidth, estimate).first->second;
    return estimate * kAboutAsGood >= first && shapes_.emplace(c.bitwidth, c.shape()).second;
  }

 private:
  std::map<std::int32_t, double> first_;
  std::set<std::pair<std::int32_t, std::string>> shapes_;
};

/// Simulates the `keep` that are estimated to be the best of their type, those that may stand
/// beside engines of other types where there are some, and any other that may be better than the
/// best of them, only as far as it has to pass them. The best first.
std::vector<Priced> simulated(ServingSearch& search, const DeploymentObjective& objective,
                              std::vector<Priced> list, std::int64_t keep) {
  std::sort(list.begin(), list.end(), by_estimate);
  std::vector<Priced> best;
  BesideOthers beside;
  const bool has_others = search.types().size() > 1;
  for (Priced& c : list) {
    double bar_per_s = 0;
    const bool is_beside = has_others && beside.take(*c);
    if (keep-- <= 0 && !is_beside && !best.empty()) {
      if (!objective.may_win(*c, *best.front())) {
        ++search.bounded;
        continue;
      }
      bar_per_s = objective.bar_per_s(*c, *best.front());
    }
    Refusal limited_by = simulate_alone(search, c, bar_per_s);
    if (bar_per_s == 0) c = holding(search, c);
    if (c->rate_per_s > 0) {
      const auto worse = [&](const Priced& other) {
        return other->total_per_s() < c->total_per_s();
      };
      best.insert(std::find_if(best.begin(), best.end(), worse), c);
    } else if (bar_per_s == 0) {
      search.refusals.push_back(std::move(limited_by));
    }
  }
  return best;
}

/// Tunes the best, and where that pays, the others that may pass it then.
void tune(ServingSearch& search, const DeploymentObjective& objective, std::vector<Priced>& best) {
  Priced first = tuned(search, best.front());
  const bool pays = first->usual_rate_per_s.has_value();
  best.front() = first;
  for (std::size_t k = 1; pays && k < best.size(); ++k) {
    const double most = best[k]->bounds.rate_per_s * static_cast<double>(best[k]->capacity);
    if (most <= best.front()->total_per_s()) continue;
    best[k] = tuned(search, best[k], objective.bar_per_s(*best[k], *best.front()));
    if (best[k]->total_per_s() > best.front()->total_per_s()) std::swap(best[k], best.front());
  }
}

BestOfType best_of(ServingSearch& search, const DeploymentObjective& objective,
                   const std::vector<Priced>& all) {
  std::vector<Priced> alone;
  std::copy_if(all.begin(), all.end(), std::back_inserter(alone),
               [](const Priced& c) { return c->may_prefill && c->may_decode; });
  // As many of each type as where it is the only one: another type takes nothing out of the search.
  const std::int64_t keep = std::max<std::int64_t>(2, (search.request().limit + 1) / 2);
  std::vector<Priced> best = simulated(search, objective, std::move(alone), keep);
  if (!best.empty()) tune(search, objective, best);
  return {{best.begin(), best.end()}, {all.begin(), all.end()}};
}

std::unique_ptr<DeploymentObjective> objective_of(const ServingSearch& search, double rate_per_s) {
  const ServingGoal goal = search.request().objective;
  if (goal == ServingGoal::rate) return largest_rate();
  return smallest_set(rate_per_s, goal == ServingGoal::cost);
}

std::vector<FoundDeployment> deployments(ServingSearch& search,
                                         const DeploymentObjective& objective) {
  std::vector<BestOfType> types;
  for (const auto& type : search.types()) {
    types.push_back(best_of(search, objective, priced_configurations(search, type)));
  }
  std::vector<BestOfType> all = types;
  all.push_back(best_of(search, objective, unlike_configurations(search)));
  std::vector<FoundDeployment> found = objective.shared_phases(search, all);
  if (search.request().disaggregated && search.lengths().output_tokens > 1) {
    std::vector<FoundDeployment> pools = objective.pools(search, types, found);
    std::move(pools.begin(), pools.end(), std::back_inserter(found));
  }
  return found;
}

std::vector<ServingPart> parts_of(const ServingSearch& search, const FoundDeployment& found,
                                  const AssembledDeployment* deployment) {
  const auto placed = search.place(found.parts);
  std::vector<ServingPart> parts;
  std::size_t replica = 0;
  for (std::size_t i = 0; i < found.parts.size(); ++i) {
    const std::int64_t count = found.parts[i].count;
    ServingPart part = serving_part(found.parts[i]);
    if (deployment != nullptr) {
      part.enable_prefix_caching =
          deployment->deployment.replicas[replica].engine.enable_prefix_caching;
      replica += static_cast<std::size_t>(count);
    }
    if (placed) part.devices.assign((*placed)[i].begin(), (*placed)[i].end());
    parts.push_back(std::move(part));
  }
  return parts;
}

std::optional<Quality> worst_quality(const std::vector<DeploymentPart>& parts) {
  std::optional<Quality> worst;
  for (const DeploymentPart& part : parts) {
    const std::optional<Quality>& quality = part.engine->one->quality;
    const bool worse =
        quality && (!worst || quality->perplexity_increase.mid > worst->perplexity_increase.mid);
    if (worse) worst = quality;
  }
  return worst;
}

/// "steps of 512 tokens: vLLM's own 2048 would serve 12 % less"
std::string tokens_note(const std::vector<DeploymentPart>& parts) {
  std::vector<std::string> notes;
  for (const DeploymentPart& part : parts) {
    const PricedConfiguration& c = *part.engine;
    if (!c.usual_rate_per_s || c.max_num_batched_tokens >= kUsualTokens) continue;
    const double less = 100 * (1 - *c.usual_rate_per_s / c.rate_per_s);
    notes.push_back(fmt::format(
        "steps of {} tokens{}: vLLM's own {} would {}", c.max_num_batched_tokens,
        parts.size() > 1 ? " on " + c.type->name : "", c.type->usual_tokens,
        *c.usual_rate_per_s > 0 ? fmt::format("serve {:.0f} % less", less) : "miss the SLO"));
  }
  return join(notes, "; ");
}

ServingRow row_of(ServingSearch& search, const FoundDeployment& found) {
  const serving::Summary& served = found.found->served->summary;
  const PricedConfiguration& first = *found.parts.front().engine;
  // What comes at the rate, not over a run that also ends.
  const double tok_s = found.rate_per_s() * search.lengths().output_tokens;
  ServingRow row;
  row.rate_per_s = found.rate_per_s();
  if (found.found->fails_at_per_s) {
    row.high_per_s = *found.found->fails_at_per_s * static_cast<double>(found.times);
  }
  row.scope = found.scope;
  row.limited_by = found.found->limited_by;
  row.note = found.found->note;
  row.layout = layout_of(found.parts);
  row.tokens_note = tokens_note(found.parts);
  row.source = first.one->source;
  row.disaggregated = is_disaggregated(found);
  row.gpus = found.gpus();
  row.engines = num_engines(found.parts);
  row.tensor_parallel = first.tensor_parallel;
  row.pipeline_parallel = first.pipeline_parallel;
  row.bitwidth = first.bitwidth;
  row.kv_bitwidth = first.kv_bitwidth;
  for (const DeploymentPart& part : found.parts) {
    row.bitwidth = std::min(row.bitwidth, part.engine->bitwidth);
    row.kv_bitwidth = std::min(row.kv_bitwidth, part.engine->kv_bitwidth);
  }
  row.tok_s_per_gpu = tok_s / static_cast<double>(row.gpus);
  row.tok_s_per_user = tok_s_per_user(served);
  row.running = tok_s / row.tok_s_per_user;
  row.ttft_p99_s = served.ttft_s.p99;
  row.tpot_p99_s = served.tpot_s.p99;
  row.attainment_ratio = served.attainment_ratio;
  row.usd_per_h = found.usd_per_h();
  if (row.usd_per_h) {
    row.usd_per_million_tokens = *row.usd_per_h / 3600 / tok_s * 1e6;
  }
  row.quality = worst_quality(found.parts);
  if (row.quality) row.perplexity_increase = row.quality->perplexity_increase.mid;
  Refusal why_not;
  row.deployment = search.deploy(found.parts, why_not);
  row.intervals = row.deployment->intervals;
  row.parts = parts_of(search, found, row.deployment.get());
  row.found = found.found;
  return row;
}

/// Why there is nothing to list: a line for each kind of reason.
std::string why_none(const ServingSearch& search) {
  std::string lines =
      "no deployment on this cluster keeps to the SLO" + refusal_lines(search.refusals);
  if (search.obstructed) {
    lines += "\n  --runtime tessera (runtime = \"tessera\") is not bound to what vLLM can launch";
  }
  return lines;
}

}  // namespace

ServingPart serving_part(const DeploymentPart& of) {
  const PricedConfiguration& engine = *of.engine;
  ServingPart part;
  part.role = of.role;
  part.share = of.share;
  part.device = engine.type->name;
  part.engines = of.count;
  part.tensor_parallel = engine.tensor_parallel;
  part.expert_parallel = engine.split.expert_parallel;
  part.attention_data_parallel = engine.split.attention_data_parallel;
  part.pipeline_parallel = engine.pipeline_parallel;
  part.stage_layers = engine.stage_layers;
  part.bitwidth = engine.bitwidth;
  part.kv_bitwidth = engine.kv_bitwidth;
  part.max_num_seqs = engine.max_num_seqs;
  part.max_num_batched_tokens = engine.max_num_batched_tokens;
  return part;
}

std::vector<std::vector<PricedPtr>> alike_engines(const ServingSearch& search,
                                                  const std::vector<BestOfType>& types,
                                                  std::size_t most_shapes) {
  std::map<std::int32_t, std::vector<PricedPtr>, std::greater<>> by_bitwidth;
  for (const BestOfType& type : types) {
    std::map<std::int32_t, std::set<std::string>> shapes;
    for (const PricedPtr& engine : type.best) {
      const std::int32_t key = search.request().unlike_engines ? 0 : engine->bitwidth;
      std::set<std::string>& own = shapes[key];
      if (own.size() < most_shapes && own.insert(engine->shape()).second) {
        by_bitwidth[key].push_back(engine);
      }
    }
  }
  std::vector<std::vector<PricedPtr>> lists;
  for (auto& [key, engines] : by_bitwidth) {
    if (engines.size() > 1) lists.push_back(std::move(engines));
  }
  return lists;
}

std::int64_t FoundDeployment::gpus() const {
  std::int64_t gpus = 0;
  for (const DeploymentPart& part : parts) gpus += part.count * part.engine->gpus();
  return gpus;
}

std::optional<double> FoundDeployment::usd_per_h() const {
  double price = 0;
  for (const DeploymentPart& part : parts) {
    const std::optional<double> own = part.engine->usd_per_h(part.count);
    if (!own) return std::nullopt;
    price += *own;
  }
  return price;
}

namespace {

ServingPlans searched(const ServingRequest& request, const DataFolders& folders,
                      const std::string& path) {
  if (request.kernel_set != cost::kAutoKernelSet) {
    const auto runs = cost::find_kernel_set(request.kernel_set, folders).recalibration;
    if (runs) runs->check_ran_on(*request.cluster, path + ".kernel_set");
  }
  ServingSearch search(request, folders, path);
  const std::optional<double> rate_per_s = search.traffic()->rate_per_s();
  if (request.objective != ServingGoal::rate && !rate_per_s) {
    refuse(path + ".traffic",
           "objective = \"{}\" serves the traffic's own rate; give it rate_per_s",
           name_of(request.objective));
  }
  const auto [prompt_tokens, output_tokens] =
      std::pair(search.lengths().prompt_tokens, search.lengths().output_tokens);
  if (prompt_tokens + output_tokens > static_cast<double>(request.model->max_context_tokens)) {
    refuse(
        path + ".traffic",
        "{:.0f} prompt and {:.0f} output tokens are more than the {} that {} takes; shorten them",
        prompt_tokens, output_tokens, request.model->max_context_tokens, request.model->name);
  }
  const auto objective = objective_of(search, rate_per_s.value_or(0));
  std::vector<FoundDeployment> found = ranked(search, *objective, deployments(search, *objective));
  ServingPlans plans;
  plans.objective = request.objective;
  if (found.empty()) plans.why_none = why_none(search);
  plans.preference = prefer_simple(search, *objective, found);
  plans.aggregated_over_disaggregated = shared_over_pools(found);
  if (search.types().size() > 1) {
    if (const auto alone = best_homogeneous(search, found)) {
      plans.best_homogeneous = layout_of(alone->parts);
      plans.gain_of_mixing = gain_over(request.objective, found.front(), *alone);
    }
  }
  while (std::ssize(found) > request.limit) found.pop_back();
  for (const FoundDeployment& each : found) {
    plans.rows.push_back(row_of(search, each));
    plans.rows.back().rank = std::ssize(plans.rows);
  }
  plans.refusals = std::move(search.refusals);
  plans.simulated = search.simulated;
  plans.bounded = search.bounded;
  plans.traffic = search.traffic();
  return plans;
}

constexpr double kMuchMore = 3;  // times the rate, what fewer bits are worth there

/// Whether what stands first has less than a request at a time where the rate is what counts: it
/// holds the model, and one request alone takes most of the limits.
bool hardly_serves(const ServingPlans& plans) {
  return plans.objective == ServingGoal::rate && plans.rows.front().running < 1;
}

}  // namespace

ServingPlans plan_serving(const ServingRequest& request, const DataFolders& folders,
                          const std::string& path) {
  check_record(request, FieldPath{path, "."});
  if (request.quality.is_set() || request.bitwidths) return searched(request, folders, path);
  ServingRequest within = request;
  within.quality = kDefaultQuality;
  ServingPlans plans = searched(within, folders, path);
  const bool any = !plans.rows.empty();
  if (any && !hardly_serves(plans)) return plans;
  ServingRequest freely = request;
  freely.bitwidths = request.candidate_bitwidths();
  ServingPlans fewer_bits = searched(freely, folders, path);
  if (fewer_bits.rows.empty()) return any ? plans : fewer_bits;
  const double most = 100 * *kDefaultQuality.max_perplexity_increase;
  if (!any) {
    fewer_bits.quality_note = fmt::format(
        "nothing that keeps to the SLO fits with a predicted rise of perplexity of at "
        "most {:g} %: fewer bits are in use",
        most);
    return fewer_bits;
  }
  const ServingRow& first = plans.rows.front();
  if (fewer_bits.rows.front().rate_per_s < kMuchMore * first.rate_per_s) return plans;
  fewer_bits.quality_note = fmt::format(
      "with a predicted rise of perplexity of at most {:g} % {} at {} bits would serve {:.2g} "
      "req/s, less than a request at a time: fewer bits are in use",
      most, first.layout, first.bitwidth, first.rate_per_s);
  return fewer_bits;
}

}  // namespace tessera::solver
