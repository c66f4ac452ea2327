// Models that come to devices which they share, and leave them.

#include "tessera/serving/models.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::serving {

std::vector<std::int32_t> model_numbers(const ModelSet& set, const Traffic& traffic) {
  std::vector<std::string> names;
  for (const ServedModel& model : set.models) names.push_back(model.name);
  if (traffic.models.empty()) {
    if (names.size() == 1) return {};
    refuse(
        "traffic",
        "requests name no model, and there are {}; give classes = {{ {{ share =, model = }}, ... "
        "}}, or a trace with a column model",
        names.size());
  }
  std::vector<std::int32_t> numbers;
  for (const std::string& name : traffic.models) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      refuse(ErrorCode::not_found, "traffic", "requests name the model {}, which is not there{}",
             quote(name), did_you_mean(name, names));
    }
    numbers.push_back(static_cast<std::int32_t>(found - names.begin()));
  }
  return numbers;
}

void Simulation::plan_models() {
  const ModelSet& set = *deployment_.models;
  const std::vector<std::int32_t> numbers = model_numbers(set, traffic_);
  for (std::size_t i = 0; i < traffic_.requests.size(); ++i) {
    const std::int32_t model = traffic_.requests[i].model;
    log_.requests[i].model = model < 0 ? 0 : numbers[static_cast<std::size_t>(model)];
  }
  const Ticks window = to_ticks(set.window_s, "window_s");
  for (std::size_t device = 0; device < set.devices.size(); ++device) {
    clocks_.emplace(static_cast<std::int32_t>(device), DeviceClock(window));
    log_.devices.push_back(
        {.name = set.devices[device].name, .total_bytes = set.devices[device].total_bytes});
  }
  memory_.emplace(set.devices);
  placer_ = set.make_placer(traffic_, device_views(0));
  for (std::size_t i = 0; i < set.models.size(); ++i) {
    const ServedModel& model = set.models[i];
    log_.models.push_back({.name = model.name, .why = "the run ended before it came"});
    const auto plan = [&](Kind kind, double at_s, const char* field) {
      const Ticks at = to_ticks(at_s, field);
      if (at <= horizon_) push({at, kind, static_cast<std::int64_t>(i), 0});
    };
    plan(Kind::place, model.at_s, "at_s");
    if (model.until_s) plan(Kind::leave, *model.until_s, "until_s");
  }
}

// Loads are those of whole seconds; stretches are brought up to now, so that they are known.
std::vector<DeviceView> Simulation::device_views(Ticks now) {
  const ModelSet& set = *deployment_.models;
  for (const auto& engine : engines_) engine->catch_up(now);
  const auto window = static_cast<double>(to_ticks(set.window_s, "window_s"));
  const Ticks sampled = now / kTicksPerSecond * kTicksPerSecond;
  std::vector<DeviceView> views;
  for (std::size_t device = 0; device < set.devices.size(); ++device) {
    const auto index = static_cast<std::int32_t>(device);
    const auto busy = static_cast<double>(clocks_.at(index).busy_before(sampled));
    views.push_back({index, set.devices[device].name, set.devices[device].total_bytes,
                     memory_->free_bytes(device), busy / window, memory_->models(device)});
  }
  return views;
}

// Those that found no room come here again when another has left; some have left meanwhile, too.
void Simulation::place(std::size_t model, Ticks now) {
  const double at_s = deployment_.models->models[model].at_s;
  const bool is_again = now > to_ticks(at_s, "at_s");
  if (is_again && std::erase(unplaced_, model) == 0) return;
  ModelRecord& record = log_.models[model];
  const ModelPlacement placement = placer_->place(model, to_seconds(now), device_views(now));
  record.configuration = placement.configuration;
  if (placement.replicas.empty()) {
    record.why = placement.why;
    return unplaced_.push_back(model);
  }
  record.why = is_again ? fmt::format("came at {:.6g} s, had no place until another left: {}", at_s,
                                      record.why)
                        : "";
  record.placed = now;
  add_placed(model, placement, now);
}

void Simulation::add_placed(std::size_t model, const ModelPlacement& placement, Ticks now) {
  ModelRecord& record = log_.models[model];
  record.layers = placement.layers;
  const Ticks ready = now + to_ticks(placement.ready_after_s, "load_bytes_per_s");
  double bytes = 0;
  for (const Replica& given : placement.replicas) {
    Replica& replica = placed_.emplace_back(given);
    replica.model = static_cast<std::int32_t>(model);
    fill_kv_blocks(replica, traffic_, [&](std::size_t request) {
      return log_.requests[request].model == replica.model;
    });
    memory_->take(engines_.size(), replica, record.name);
    const std::size_t engine = add_engine(replica);
    record.engines.push_back(static_cast<std::int32_t>(engine));
    ready_at_[engine] = ready;
    fronts_[model].engines.push_back(engine);
    std::int64_t count = 0;
    for (std::size_t k = 0; k < replica.devices.size(); ++k) {
      for (const std::int32_t device : replica.devices[k]) {
        record.devices.push_back(device);
        log_.devices[static_cast<std::size_t>(device)].was_used = true;
        bytes += replica.stage_bytes[k];
        ++count;
      }
    }
    record.num_devices = std::max(record.num_devices, count);
  }
  record.memory_bytes = placement.memory_bytes > 0 ? placement.memory_bytes : bytes;
  fronts_[model].is_open = true;
  memory_bytes_ += record.memory_bytes;
  log_.peak_memory_bytes = std::max(log_.peak_memory_bytes, memory_bytes_);
}

// What it has it ends; who waits in front of its engines has come too late.
void Simulation::leave(std::size_t model, Ticks now) {
  Front& front = fronts_[model];
  front.is_open = false;
  std::erase(unplaced_, model);
  std::deque<std::int64_t> waiting;
  waiting.swap(front.queue);
  std::vector<std::size_t> engines;
  engines.swap(front.engines);
  for (const std::int64_t request : waiting) turn_away(request, now, true);
  for (const std::size_t engine : engines) free_memory(engine, now);
}

// Once its model has gone, and nothing is left to do. Who found no room is tried again.
void Simulation::free_memory(std::size_t replica, Ticks now) {
  const auto model = static_cast<std::size_t>(this->replica(replica).model);
  if (fronts_[model].is_open || !memory_->has(replica)) return;
  const EngineRun& engine = *engines_[replica];
  if (!engine.core().is_idle() || engine.scheduler().num_unfinished() > 0) return;
  memory_->give_back(replica);
  const bool is_last = std::ranges::none_of(engines_, [&](const auto& other) {
    return other->replica().model == engine.replica().model &&
           memory_->has(static_cast<std::size_t>(&other - engines_.data()));
  });
  if (!is_last) return;
  memory_bytes_ -= log_.models[model].memory_bytes;
  for (const std::size_t waiting : unplaced_) {
    push({now, Kind::place, static_cast<std::int64_t>(waiting), 0});
  }
}

void Simulation::turn_away(std::int64_t request, Ticks now, bool is_unplaced) {
  RequestRecord& record = log_.requests[static_cast<std::size_t>(request)];
  record.outcome = Outcome::rejected;
  record.is_unplaced = is_unplaced;
  ++num_ended_;
  request_over(request, now);
}

void Simulation::close_models() {
  for (std::size_t device = 0; device < log_.devices.size(); ++device) {
    DeviceRecord& record = log_.devices[device];
    record.busy = clocks_.at(static_cast<std::int32_t>(device)).busy_until(log_.end);
    record.peak_bytes = memory_->peak_bytes(device);
  }
}

}  // namespace tessera::serving
