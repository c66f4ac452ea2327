#include "tessera/solver/fleet_pricing/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "pair_columns.h"
#include "tessera/core/cluster.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/solver/deploy/plan_serving.h"
#include "tessera/solver/deploy/step_mix.h"

namespace tessera::solver {
namespace {

// Whole nodes that a replica is tried on where none of its kind holds the model, and no stages are
// asked for.
constexpr std::int64_t kWholeNodes[] = {2, 3, 4, 6, 8, 12, 16};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_held(const std::vector<std::string>& allowed, const TypeDevices& type) {
  if (allowed.empty()) return true;
  return std::all_of(type.types.begin(), type.types.end(), [&](const std::string& name) {
    return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  });
}

bool is_of_one_type(const Cluster& node) {
  const std::string& first = node.devices.front().device.name;
  return std::all_of(node.devices.begin(), node.devices.end(),
                     [&](const ClusterDevice& slot) { return slot.device.name == first; });
}

/// The TPOT that the mean of all requests keeps to where the SLO holds: of a class the strictest
/// limit on each, on the mean or on 99 %, of several classes the loosest.
double mean_tpot_limit_s(const ServingRequest& request) {
  double loosest = 0;
  for (const serving::Slo& slo : request.slos) {
    double own = slo.tpot_s.each.value_or(kInfinity);
    for (const auto& all : slo.tpot_s.of_all) {
      const bool is_of_most =
          all.statistic == serving::Statistic::mean || all.statistic == serving::Statistic::p99;
      if (is_of_most) own = std::min(own, all.limit_s);
    }
    loosest = std::max(loosest, own);
  }
  return loosest;
}

/// What no run of the configuration passes, with fewer tokens of a step neither.
double bound_of(const ServingSearch& search, const PricedConfiguration& c) {
  const StepLimits limits{c.max_num_seqs, c.max_num_batched_tokens,
                          mean_tpot_limit_s(search.request())};
  const serving::Replica& engine = c.one->deployment.replicas.front();
  return kFiniteRun * mixed_rate_per_s(engine, search.lengths(), limits);
}

// Steps that engines of a model are compared by: so many decodes, beside so much of prompts.
constexpr std::int64_t kDecodes[] = {0, 1, 8, 32, 64, 128, 192, 256, 384, 512, 768, 1024};
constexpr double kPrompts[] = {0, 0.25, 1, 2, 4, 8, 16, 64};

std::vector<StepMix> compared_steps(const MeanLengths& lengths) {
  const auto prompt = std::max<std::int64_t>(1, std::llround(lengths.prompt_tokens));
  std::vector<StepMix> steps;
  for (const std::int64_t decodes : kDecodes) {
    for (const double prompts : kPrompts) {
      if (decodes == 0 && prompts == 0) continue;
      StepMix mix{.num_decodes = decodes,
                  .context_tokens = prompt + static_cast<std::int64_t>(lengths.output_tokens / 2)};
      if (prompts > 0) {
        mix.num_prompts = std::max<std::int64_t>(1, std::llround(prompts));
        mix.prompt_tokens = std::max<std::int64_t>(
            1, std::llround(prompts * static_cast<double>(prompt)) / mix.num_prompts);
      }
      steps.push_back(mix);
    }
  }
  return steps;
}

std::vector<double> step_prices(const ServingSearch& search, const PricedConfiguration& c) {
  const serving::Replica& engine = c.one->deployment.replicas.front();
  std::vector<double> prices;
  if (engine.num_stages() > 1) return prices;
  for (const StepMix& mix : compared_steps(search.lengths())) {
    prices.push_back(step_s(*engine.cost, mix));
  }
  return prices;
}

/// How many times as long steps of an engine take as those of another, at least; of one that may
/// hold more, or takes more in a step, nothing is known: 0.
double slower_by(const std::vector<StepMix>& steps, const ServedClass& engine,
                 const ServedClass& other, const Configuration& limits) {
  const PricedConfiguration& own = *engine.priced;
  const auto kv_tokens = [](const ServedClass& e) {
    return e.priced->one->deployment.replicas.front().kv_tokens();
  };
  if (engine.step_s.empty() || other.step_s.empty()) return 0;
  if (own.max_num_seqs > limits.max_num_seqs || kv_tokens(engine) > kv_tokens(other) ||
      own.max_num_batched_tokens > limits.max_num_batched_tokens) {
    return 0;
  }
  double least = kInfinity;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepMix& mix = steps[i];
    const bool is_possible =
        mix.num_decodes <= own.max_num_seqs &&
        mix.num_decodes + mix.num_prompts * mix.prompt_tokens <= own.max_num_batched_tokens;
    if (is_possible) least = std::min(least, engine.step_s[i] / other.step_s[i]);
  }
  return least;
}

/// What an engine sustains of a class with as few tokens of a step as another class of requests
/// wants.
void keep_to_tokens(ServingSearch& search, std::int64_t tokens, ServedClass& served) {
  if (served.priced->max_num_batched_tokens <= tokens) return;
  std::shared_ptr<PricedConfiguration> other = served.priced;
  while (other != nullptr && other->max_num_batched_tokens > tokens) {
    other = with_fewer_tokens(search, *other, serving::Role::mixed);
  }
  if (other == nullptr) return;
  simulate_alone(search, other);
  served.rate_per_s = std::min(other->rate_per_s, served.bound_per_s);
  if (other->found) served.limited_by = other->found->limited_by;
  served.priced = std::move(other);
}

}  // namespace

std::vector<double> FleetEngine::most_per_s() const {
  std::vector<double> most;
  for (const ServedClass& each : classes) {
    most.push_back(is_known ? each.rate_per_s : each.bound_per_s);
  }
  return most;
}

const PricedConfiguration& FleetEngine::configuration() const {
  const PricedConfiguration* any = nullptr;
  for (const ServedClass& each : classes) {
    if (each.priced == nullptr) continue;
    if (each.rate_per_s > 0) return *each.priced;
    if (any == nullptr) any = each.priced.get();
  }
  if (any != nullptr) return *any;
  throw Error(ErrorCode::internal, "the kind of replica '" + label + "' has no configuration");
}

std::vector<DeploymentPart> FleetEngine::parts() const {
  if (pair) return pair->pools.parts();
  return {{std::make_shared<const PricedConfiguration>(configuration())}};
}

std::string FleetEngine::name() const {
  if (is_given()) return label;
  if (!pair) return configuration().name();
  const PoolPair& pools = pair->pools;
  return fmt::format("prefill {} x {} + decode {} x {}", pools.x, pools.prefill->name(), pools.y,
                     pools.decode->name());
}

/// The search of a model's configurations on a kind of node, for a class of requests, and the
/// request that it refers to.
struct FleetColumns::Search {
  Search(ServingRequest asked, const DataFolders& folders, const std::string& path)
      : request(std::move(asked)), search(request, folders, path) {}
  const ServingRequest request;
  ServingSearch search;
};

/// What a model may run as on nodes of a class, or of another that is alike.
struct FleetColumns::Kind {
  std::size_t model = 0;
  std::shared_ptr<const Cluster> node;
  std::string signature;
  std::int64_t count = 0;  ///< of nodes that were looked at
  struct Fit {
    std::size_t engine = 0;
    std::int64_t nodes = 1;
    std::vector<std::int64_t> devices = {}, prefill_devices = {};
  };
  std::vector<Fit> fits;

  /// Of the engine of a name.
  const Fit* find(const std::vector<FleetEngine>& engines, const std::string& name) const {
    const auto found = std::find_if(fits.begin(), fits.end(), [&](const Fit& fit) {
      return engines[fit.engine].name() == name;
    });
    return found == fits.end() ? nullptr : &*found;
  }
};

FleetColumns::~FleetColumns() = default;

FleetColumns::FleetColumns(std::vector<NamedModel> models, const std::vector<NodeKind>& classes,
                           const DataFolders& folders, const std::string& path,
                           std::function<void()> poll)
    : models_(std::move(models)), folders_(folders), path_(path) {
  *poll_ = std::move(poll);
  for (NamedModel& model : models_) {
    model.serving.poll = [poll = poll_](std::int64_t) {
      if (*poll) (*poll)();
    };
  }
  for (std::size_t m = 0; m < models_.size(); ++m) {
    for (std::string& name : models_[m].devices) {
      name = find_device(name, folders, fmt::format("{}[{}].devices", path, m + 1)).name;
    }
  }
  demand_per_s_.resize(models_.size());
  refusals_.resize(models_.size());
  notes_.resize(models_.size());
  for (std::size_t m = 0; m < models_.size(); ++m) add_model(m, classes);
}

void FleetColumns::add_model(std::size_t model, const std::vector<NodeKind>& classes) {
  const std::size_t before = columns_.size();
  const auto add_columns = [&] {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      for (const Kind::Fit& fit : kind_of(model, classes[c]).fits) {
        if (fit.nodes > classes[c].count) continue;
        columns_.push_back({model, c, fit.nodes, fit.devices, fit.engine, fit.prefill_devices});
      }
    }
  };
  ServingRequest& asked = models_[model].serving;
  const bool is_free = !asked.quality.is_set() && !asked.bitwidths;
  if (is_free) asked.quality = kDefaultQuality;
  add_columns();
  if (!is_free || columns_.size() > before) return;
  // As ts.plan_serving: where nothing keeps to the default bound, fewer bits are better than none.
  asked.quality = {};
  asked.bitwidths = asked.candidate_bitwidths();
  refusals_[model].clear();
  std::erase_if(kinds_, [&](const auto& kind) { return kind->model == model; });
  add_columns();
  if (columns_.size() > before) {
    notes_[model] = fmt::format(
        "nothing that keeps to the SLO fits with a predicted rise of perplexity of at most {:g} %: "
        "fewer bits are in use",
        100 * *kDefaultQuality.max_perplexity_increase);
  }
}

const FleetColumns::Kind& FleetColumns::kind_of(std::size_t model, const NodeKind& its) {
  std::string signature = to_json(*its.node).dump();
  for (const auto& known : kinds_) {
    const bool is_wide_enough = known->count >= its.count || !known->fits.empty();
    if (known->model == model && is_wide_enough && known->signature == signature) return *known;
  }
  Kind& kind = *kinds_.emplace_back(std::make_unique<Kind>());
  kind.model = model;
  kind.node = its.node;
  kind.signature = std::move(signature);
  kind.count = its.count;
  ServingRequest request = models_[model].serving;
  request.unlike_devices = request.unlike_devices && !is_of_one_type(*its.node);
  add_kind(model, request, its, 1, kind);
  if (!kind.fits.empty() || its.count < 2 || !is_of_one_type(*its.node)) return kind;
  const std::int64_t devices = its.num_devices();
  std::vector<std::int64_t> counts(std::begin(kWholeNodes), std::end(kWholeNodes));
  if (request.pipeline_parallel) counts = *request.pipeline_parallel;
  request.tensor_parallel = {devices};
  for (const std::int64_t count : counts) {
    if (count < 2 || count > its.count) continue;
    request.pipeline_parallel = {count};
    add_kind(model, request, its, count, kind);
    if (!kind.fits.empty() && !models_[model].serving.pipeline_parallel) break;
  }
  return kind;
}

void FleetColumns::add_kind(std::size_t model, const ServingRequest& request, const NodeKind& its,
                            std::int64_t nodes, Kind& kind) {
  ServingRequest own = request;
  own.cluster = std::make_shared<const Cluster>(copies_of(*its.node, nodes));
  const std::vector<RequestsOfModel>& classes = models_[model].classes;
  demand_per_s_[model].resize(classes.size());
  for (std::size_t b = 0; b < classes.size(); ++b) {
    own.traffic = classes[b].traffic;
    own.slos = classes[b].slos;
    add_class(model, b, own, its, nodes, kind);
  }
}

void FleetColumns::add_class(std::size_t model, std::size_t its_class, ServingRequest request,
                             const NodeKind& its, std::int64_t nodes, Kind& kind) {
  const std::size_t num_classes = models_[model].classes.size();
  std::string path = fmt::format("{}[{}]", path_, model + 1);
  if (num_classes > 1) path += fmt::format(".classes[{}]", its_class + 1);
  auto held = std::make_unique<Search>(std::move(request), folders_, path);
  ServingSearch& search = held->search;
  if (!search.traffic()->rate_per_s()) refuse(path + ".traffic", "give its rate_per_s: the demand");
  demand_per_s_[model][its_class] = *search.traffic()->rate_per_s();
  const auto engine_of_name = [&](const std::shared_ptr<PricedConfiguration>& priced) {
    if (const Kind::Fit* known = kind.find(engines_, priced->name())) return known->engine;
    Kind::Fit fit{.engine = engines_.size(), .nodes = nodes};
    fit.devices.assign(its.node->devices.size(), nodes > 1 ? 1 : 0);
    if (nodes == 1) {
      const auto placed = search.place({{priced, 1}});
      for (const std::size_t device : placed->front()) fit.devices[device] = 1;
    }
    engines_.push_back({.classes = std::vector<ServedClass>(num_classes)});
    kind.fits.push_back(std::move(fit));
    return engines_.size() - 1;
  };
  const auto add = [&](const std::vector<std::shared_ptr<PricedConfiguration>>& list) {
    for (const auto& priced : list) {
      if (!priced->may_prefill || !priced->may_decode || priced->bounds.rate_per_s <= 0) continue;
      engines_[engine_of_name(priced)].classes[its_class] = {
          .search = searches_.size(),
          .priced = priced,
          .bound_per_s = bound_of(search, *priced),
          .step_s = step_prices(search, *priced)};
    }
  };
  const std::vector<std::string>& allowed = models_[model].devices;
  std::vector<BestOfType> types;
  for (const auto& type : search.types()) {
    if (!is_held(allowed, *type)) continue;
    const auto list = priced_configurations(search, type);
    add(list);
    types.push_back({{}, {list.begin(), list.end()}});
  }
  auto unlike = unlike_configurations(search);
  std::erase_if(unlike, [&](const auto& each) { return !is_held(allowed, *each->type); });
  add(unlike);
  if (models_[model].pools && nodes == 1) add_pairs(*held, types, its, kind);
  auto& refusals = refusals_[model];
  std::move(search.refusals.begin(), search.refusals.end(), std::back_inserter(refusals));
  search.refusals.clear();
  searches_.push_back(std::move(held));
}

void FleetColumns::add_pairs(Search& held, const std::vector<BestOfType>& types,
                             const NodeKind& its, Kind& kind) {
  ServingSearch& search = held.search;
  if (search.lengths().output_tokens <= 1) return;  // nothing is decoded
  for (PoolPair& pools : pairs_of(search, types)) {
    const auto placed = search.place(pools.parts());
    const double bound_per_s = bound_of(search, pools, mean_tpot_limit_s(search.request()));
    if (!placed || bound_per_s <= 0) continue;
    Kind::Fit fit{.engine = engines_.size()};
    fit.devices.assign(its.node->devices.size(), 0);
    fit.prefill_devices = fit.devices;
    for (std::size_t part = 0; part < placed->size(); ++part) {
      for (const std::size_t device : (*placed)[part]) {
        fit.devices[device] = 1;
        if (part == 0) fit.prefill_devices[device] = 1;
      }
    }
    FleetEngine engine;
    engine.classes = {{.search = searches_.size(), .priced = nullptr, .bound_per_s = bound_per_s}};
    engine.pair = std::make_shared<EnginePair>(EnginePair{std::move(pools)});
    engines_.push_back(std::move(engine));
    kind.fits.push_back(std::move(fit));
  }
}

void FleetColumns::add_given(const GivenColumn& column, const NodeKind& its,
                             const std::string& path) {
  const auto& slots = its.node->devices;
  FleetColumn own{column.model, column.node_class, 1, std::vector<std::int64_t>(slots.size(), 0),
                  engines_.size()};
  for (const auto& [name, count] : column.devices) {
    std::int64_t left = count;
    for (std::size_t i = 0; i < slots.size() && left > 0; ++i) {
      if (slots[i].device.name != name) continue;
      own.devices[i] = 1;
      --left;
    }
    if (left > 0) refuse(path + ".devices", "a node of {} has no {} x {}", its.name, count, name);
  }
  if (column.rate_per_s.size() != models_[column.model].classes.size()) {
    refuse(path + ".rate_per_s", "{} rates, where '{}' has {} classes of requests",
           column.rate_per_s.size(), models_[column.model].name,
           models_[column.model].classes.size());
  }
  FleetEngine engine;
  for (const double rate_per_s : column.rate_per_s) {
    ServedClass& served = engine.classes.emplace_back();
    served.bound_per_s = served.rate_per_s = rate_per_s;
  }
  engine.is_known = true;
  engine.label = column.label;
  engines_.push_back(std::move(engine));
  ++num_given_;
  columns_.push_back(std::move(own));
}

std::string FleetColumns::why_none(std::size_t model) const {
  return refusal_lines(refusals_[model]);
}

bool FleetColumns::simulate(std::size_t column) {
  FleetEngine& engine = engines_[columns_[column].engine];
  if (engine.is_known) return false;
  ++num_simulated_;
  if (engine.pair) {
    ServedClass& served = engine.classes.front();
    simulate_pair(searches_[served.search]->search, *engine.pair, served);
    engine.is_known = true;
    return true;
  }
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();
  for (std::size_t b = 0; b < engine.classes.size(); ++b) {
    ServedClass& each = engine.classes[b];
    if (!each.priced) continue;
    const Configuration limits = *each.priced;
    simulate_class(each);
    if (each.priced->found) bound_slower(columns_[column].model, b, each, limits);
    if (each.rate_per_s > 0) tokens = std::min(tokens, each.priced->max_num_batched_tokens);
  }
  // One server has one limit of a step, whichever class a request is of: the least that any wants.
  for (ServedClass& each : engine.classes) {
    if (each.rate_per_s > 0) keep_to_tokens(searches_[each.search]->search, tokens, each);
  }
  engine.is_known = true;
  return true;
}

void FleetColumns::simulate_class(ServedClass& served) {
  ServingSearch& search = searches_[served.search]->search;
  Refusal limited_by = simulate_alone(search, served.priced);
  auto found = holding(search, served.priced);
  if (found->rate_per_s > 0) found = tuned(search, std::move(found));
  served.priced = std::move(found);
  // A run that ends may hold more for its short time than an engine does for ever.
  served.rate_per_s = std::min(served.priced->rate_per_s, served.bound_per_s);
  served.limited_by =
      served.priced->found ? served.priced->found->limited_by : std::move(limited_by.reason);
}

void FleetColumns::bound_slower(std::size_t model, std::size_t its_class, const ServedClass& known,
                                const Configuration& limits) {
  // Other tokens of a step were not worth a change, which is at most so much.
  const double most = std::max(kWorthIt * known.rate_per_s,
                               known.priced->found->fails_at_per_s.value_or(kInfinity));
  const std::vector<StepMix> steps = compared_steps(searches_[known.search]->search.lengths());
  for (const auto& kind : kinds_) {
    if (kind->model != model) continue;
    for (const Kind::Fit& fit : kind->fits) {
      if (engines_[fit.engine].is_known) continue;
      ServedClass& other = engines_[fit.engine].classes[its_class];
      if (other.priced == nullptr || &other == &known) continue;
      const double slower = slower_by(steps, other, known, limits);
      if (slower >= 1) other.bound_per_s = std::min(other.bound_per_s, most / slower);
    }
  }
}

}  // namespace tessera::solver
