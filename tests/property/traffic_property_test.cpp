// What holds of all traffic, whatever the options: order, sums, determinism, and that a written
// trace gives the same requests again.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "folder.h"
#include "tessera/serving/traffic_options.h"

namespace tessera::serving {

// Beside the type, so that lists of them are compared too.
static bool operator==(const Request& a, const Request& b) {
  return a.arrival == b.arrival && a.prompt_tokens == b.prompt_tokens &&
         a.output_tokens == b.output_tokens && a.max_tokens == b.max_tokens &&
         a.priority == b.priority && a.slo_class == b.slo_class &&
         a.prefix_group == b.prefix_group && a.prefix_tokens == b.prefix_tokens &&
         a.stream == b.stream && a.first_block_id == b.first_block_id &&
         a.num_block_ids == b.num_block_ids && a.after == b.after;
}

namespace traffic_property_test {
namespace {

bool same(const Traffic& a, const Traffic& b) {
  return a.requests == b.requests && a.block_ids == b.block_ids;
}

std::int64_t pick(std::int64_t low, std::int64_t high) { return *rc::gen::inRange(low, high + 1); }

double pick_rate() { return std::pow(10.0, static_cast<double>(pick(-100, 300)) / 100); }

LengthDistribution pick_lengths() {
  const auto low = pick(1, 20), mean = pick(22, 400), high = pick(500, 5000);
  const auto kind = static_cast<LengthKind>(pick(0, 4));
  LengthDistribution lengths{kind, static_cast<double>(mean), {}, low, high};
  if (kind == LengthKind::fixed) return fixed_length(mean);
  if (kind == LengthKind::uniform) lengths.mean.reset();
  if (kind == LengthKind::lognormal) lengths.cv = static_cast<double>(pick(1, 30)) / 10;
  return lengths;
}

TrafficOptions pick_options() {
  TrafficOptions o;
  o.seed = pick(0, 1 << 30);
  o.rate_per_s = pick_rate();
  o.num_requests = pick(1, 200);
  o.prompt_tokens = pick_lengths();
  o.output_tokens = pick_lengths();
  if (pick(0, 1) == 1) o.burstiness = static_cast<double>(pick(1, 400)) / 100;
  if (pick(0, 2) == 0) o.max_tokens = pick(1, 300);
  if (pick(0, 2) == 0) o.classes = {{0.25, 3, 0}, {0.75, -2, 1}};
  const std::int64_t groups = pick(0, 2);
  if (groups > 0) {
    o.prefix_tokens = pick(1, 100);
    o.prefix_groups = groups;
    o.prefix_share = static_cast<double>(pick(0, 10)) / 10;
  }
  if (pick(0, 2) == 0) {
    o.sessions = Sessions{{LengthKind::geometric, 3, {}, {}, 9}, pick_rate(), {}};
  } else {
    o.n = pick(1, 3);
  }
  return o;
}

/// Requests with anything that a request may have, as no generator makes them.
Traffic pick_traffic() {
  Traffic traffic;
  traffic.block_id_tokens = pick(1, 600);
  Ticks at = 0;
  const std::int64_t count = pick(1, 30);
  for (std::int64_t i = 0; i < count; ++i) {
    Request r;
    r.prompt_tokens = pick(1, kMaxTokensPerRequest);
    r.output_tokens = pick(1, kMaxTokensPerRequest);
    r.max_tokens = pick(0, 1) * kMaxTokensPerRequest;
    r.priority = static_cast<std::int32_t>(pick(-5, 5));
    r.slo_class = static_cast<std::int32_t>(pick(0, 3));
    r.after = pick(0, 3) == 0 ? pick(-1, i - 1) : -1;
    at += pick(0, 1) * pick(0, 200'000'000'000'000'000);
    r.arrival = r.after >= 0 ? pick(0, 1'000'000'000'000'000'000) : at;
    if (pick(0, 1) == 1) {
      r.num_block_ids = pick(0, std::min<std::int64_t>(3, (r.prompt_tokens - 1) / 600 + 1));
      if (r.num_block_ids > 0) {
        r.first_block_id = static_cast<std::int64_t>(traffic.block_ids.size());
        for (std::int64_t k = 0; k < r.num_block_ids; ++k) {
          traffic.block_ids.push_back(pick(0, 1'000'000));
        }
      }
    } else {
      r.stream = pick(-1, 5);
      r.prefix_group = pick(-1, 3);
      if (r.prefix_group >= 0) r.prefix_tokens = pick(0, r.prompt_tokens);
    }
    traffic.requests.push_back(r);
  }
  // A file without ids has no column that says how many tokens one stands for.
  if (traffic.block_ids.empty()) traffic.block_id_tokens = Traffic{}.block_id_tokens;
  return traffic;
}

class TrafficProperty : public test::FolderTest {};

RC_GTEST_FIXTURE_PROP(TrafficProperty, AWrittenTraceGivesTheSameRequests, ()) {
  const Traffic traffic = pick_traffic();
  const std::string file = path("trace.csv");
  write_trace(traffic, file);
  const Traffic again = read_trace(file);
  RC_ASSERT(same(traffic, again));
  RC_ASSERT(traffic.block_id_tokens == again.block_id_tokens);
}

RC_GTEST_FIXTURE_PROP(TrafficProperty, GeneratedRequestsAreReplayedToTheTick, ()) {
  const Traffic traffic = make_traffic(pick_options(), "options");
  TrafficOptions replay;
  replay.trace = path("trace.csv");
  write_trace(traffic, replay.trace);
  RC_ASSERT(same(traffic, make_traffic(replay, "options")));
}

RC_GTEST_PROP(TrafficProperties, TheSameSeedGivesTheSameRequests, ()) {
  const TrafficOptions options = pick_options();
  RC_ASSERT(same(make_traffic(options, "options"), make_traffic(options, "options")));
}

RC_GTEST_PROP(TrafficProperties, RequestsKeepWhatTheirFieldsPromise, ()) {
  const TrafficOptions options = pick_options();
  const Traffic traffic = make_traffic(options, "options");
  RC_ASSERT(static_cast<std::int64_t>(traffic.requests.size()) == *options.num_requests);
  Ticks latest = 0;
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    const Request& r = traffic.requests[i];
    RC_ASSERT(r.output_tokens >= 1);
    RC_ASSERT(r.prompt_tokens > r.prefix_tokens);
    RC_ASSERT(r.max_tokens == options.max_tokens.value_or(0));
    RC_ASSERT(r.max_tokens == 0 || r.output_tokens <= r.max_tokens);
    RC_ASSERT(r.after == -1 || r.after == static_cast<std::int64_t>(i) - 1);
    if (r.after < 0) {
      RC_ASSERT(r.arrival >= latest);
      latest = r.arrival;
    } else {
      const Request& before = traffic.requests[i - 1];
      RC_ASSERT(r.stream == before.stream && r.slo_class == before.slo_class);
      RC_ASSERT(r.prefix_group == before.prefix_group);
      RC_ASSERT(r.prompt_tokens > before.prompt_tokens + before.output_tokens);
    }
  }
}

RC_GTEST_PROP(TrafficProperties, AnotherRateChangesTheGapsAlone, ()) {
  TrafficOptions options = pick_options();
  const Traffic one = make_traffic(options, "options");
  const double factor = pick_rate();
  *options.rate_per_s *= factor;
  Traffic other = make_traffic(options, "options");
  RC_ASSERT(one.requests.size() == other.requests.size());
  for (std::size_t i = 0; i < one.requests.size(); ++i) {
    const double at = static_cast<double>(one.requests[i].arrival);
    const double expected = one.requests[i].after < 0 ? at / factor : at;
    // Half a tick of rounding on either side, and a few roundings of doubles.
    RC_ASSERT(std::abs(static_cast<double>(other.requests[i].arrival) - expected) <=
              1 + 0.5 / factor + 1e-14 * expected);
    other.requests[i].arrival = one.requests[i].arrival;
  }
  RC_ASSERT(same(one, other));
}

}  // namespace
}  // namespace traffic_property_test
}  // namespace tessera::serving
