// How many requests a simulated server takes per second of one core. Lengths are about those of
// ShareGPT (Helix's copy: 239 and 198 tokens in the mean), drawn log-normally so that nothing is
// read.

#include <benchmark/benchmark.h>

#include "tessera/serving/simulate.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {
namespace {

Traffic chat(std::int64_t num_requests, double rate_per_s) {
  TrafficOptions options;
  options.num_requests = num_requests;
  options.rate_per_s = rate_per_s;
  options.arrivals = Arrivals::poisson;
  LengthDistribution lengths;
  lengths.distribution = LengthKind::lognormal;
  lengths.cv = 1;
  lengths.max = 2000;
  lengths.mean = 239;
  options.prompt_tokens = lengths;
  lengths.mean = 198;
  options.output_tokens = lengths;
  options.seed = 1;
  return make_traffic(options, "bench");
}

// An 8B model on a large GPU, roughly.
Deployment engines(std::int64_t count, bool prefix_caching) {
  auto cost = std::make_shared<LinearStepCost>();
  cost->base = to_ticks(6e-3, "base_s");
  cost->per_token = to_ticks(2e-5, "per_token_s");
  cost->per_sequence = to_ticks(1e-5, "per_sequence_s");
  cost->per_context_token = to_ticks(4e-8, "per_context_token_s");
  Replica replica;
  replica.name = "engine";
  replica.cost = cost;
  replica.kv_blocks = 27'000;
  replica.engine.enable_prefix_caching = prefix_caching;
  Deployment deployment;
  deployment.replicas.assign(static_cast<std::size_t>(count), replica);
  deployment.router.name = "least_requests";
  return deployment;
}

// Every token but the last of each request was computed once, or once more after a preemption.
bool is_right(const Log& log, const Traffic& traffic) {
  std::int64_t computed = 0, wanted = 0;
  for (const ReplicaRecord& replica : log.replicas) {
    computed += replica.scheduled_tokens - replica.recomputed_tokens;
  }
  for (const Request& r : traffic.requests) wanted += r.prompt_tokens + r.output_tokens - 1;
  return computed == wanted && log.cut_off.empty();
}

void serve(benchmark::State& state, const Deployment& deployment, const Traffic& traffic,
           bool skip) {
  for (auto _ : state) {
    SimulationOptions options;
    options.skip = skip;
    const Log log = simulate(deployment, traffic, std::move(options));
    if (!is_right(log, traffic)) state.SkipWithError("tokens do not add up");
  }
  state.SetItemsProcessed(state.iterations() * std::ssize(traffic.requests));
}

// Argument: requests per second; the engine takes about 50.
void BM_Serve(benchmark::State& state) {
  serve(state, engines(1, false), chat(20'000, static_cast<double>(state.range(0))), true);
}
BENCHMARK(BM_Serve)->Arg(2)->Arg(20)->Arg(45)->Arg(100)->Unit(benchmark::kMillisecond);

void BM_ServeStepByStep(benchmark::State& state) {
  serve(state, engines(1, false), chat(20'000, static_cast<double>(state.range(0))), false);
}
BENCHMARK(BM_ServeStepByStep)->Arg(2)->Arg(20)->Arg(45)->Arg(100)->Unit(benchmark::kMillisecond);

void BM_ServeAhead(benchmark::State& state) {
  Deployment deployment = engines(1, false);
  deployment.replicas[0].engine.async_scheduling = true;
  serve(state, deployment, chat(20'000, static_cast<double>(state.range(0))), true);
}
BENCHMARK(BM_ServeAhead)->Arg(2)->Arg(20)->Arg(45)->Arg(100)->Unit(benchmark::kMillisecond);

void BM_ServePrefixCache(benchmark::State& state) {
  serve(state, engines(1, true), chat(20'000, static_cast<double>(state.range(0))), true);
}
BENCHMARK(BM_ServePrefixCache)->Arg(20)->Arg(45)->Unit(benchmark::kMillisecond);

// A million requests on 64 engines: a minute and 2 GiB are the limits.
void BM_ServeFleet(benchmark::State& state) {
  serve(state, engines(64, false), chat(1'000'000, 2000), true);
}
BENCHMARK(BM_ServeFleet)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace tessera::serving
