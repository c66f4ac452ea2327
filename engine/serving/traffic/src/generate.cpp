#include "generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "sampling.h"
#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

/// Times of arrivals: gaps of mean 1, so that a rate only divides them.
class GroupClock {
 public:
  /// @param group_size requests per arrival, on average
  GroupClock(const TrafficOptions& options, const RateFunction* rates, double group_size)
      : rng_(stream_of(options.seed, Draws::arrivals)), rates_(rates), group_size_(group_size) {
    kind_ = options.arrivals.value_or(Arrivals::poisson);
    if (options.burstiness || options.cv) {
      kind_ = Arrivals::gamma;
      shape_ = options.burstiness ? *options.burstiness : 1 / (*options.cv * *options.cv);
    }
    at_once_ = kind_ == Arrivals::closed || (options.rate_per_s && std::isinf(*options.rate_per_s));
    if (!at_once_ && rates == nullptr) rate_ = *options.rate_per_s;
    if (options.rate_scale) scale_ = *options.rate_scale;
    if (rates != nullptr && options.rate_per_s) scale_ = *options.rate_per_s / rates->mean_per_s();
  }

  /// The next arrival, s; nothing once a function of rates is at its end.
  std::optional<double> next() {
    if (at_once_) return 0.0;
    unit_ += gap();
    if (rates_ == nullptr) return unit_ * group_size_ / rate_;
    return time_of(unit_ * group_size_ / scale_);
  }

 private:
  double gap() {
    if (kind_ == Arrivals::constant) return 1;
    if (kind_ == Arrivals::gamma) return unit_gamma(rng_, shape_);
    return -std::log(open_uniform(rng_));
  }

  /// When the integral of the rates comes to `requests`: what is asked for only ever grows.
  std::optional<double> time_of(double requests) {
    while (piece_ < rates_->start_s.size()) {
      const double start = rates_->start_s[piece_], rate = rates_->rate_per_s[piece_];
      const double end =
          piece_ + 1 < rates_->start_s.size() ? rates_->start_s[piece_ + 1] : rates_->end_s;
      const double in_piece = rate * (end - start);
      if (requests - before_ < in_piece) return start + (requests - before_) / rate;
      before_ += in_piece;
      ++piece_;
    }
    return std::nullopt;
  }

  Rng rng_;
  const RateFunction* rates_;
  double group_size_;
  Arrivals kind_;
  bool at_once_ = false;
  double rate_ = 1, shape_ = 1, scale_ = 1, unit_ = 0;
  std::size_t piece_ = 0;
  double before_ = 0;  ///< requests of the pieces before this one
};

class Generator {
 public:
  Generator(const TrafficOptions& options, const Sources& sources, const std::string& path)
      : o_(options),
        lengths_(sources.lengths),
        path_(path),
        prompts_(stream_of(o_.seed, Draws::prompts)),
        outputs_(stream_of(o_.seed, Draws::outputs)),
        prefixes_(stream_of(o_.seed, Draws::prefixes)),
        sessions_(stream_of(o_.seed, Draws::sessions)),
        prompt_(o_.prompt_tokens.value_or(fixed_length(512))),
        output_(o_.output_tokens.value_or(fixed_length(128))),
        turns_(o_.sessions ? o_.sessions->turns : fixed_length(1)),
        group_(weights()),
        rates_(sources.rates) {
    prefix_tokens_ = o_.prefix_tokens.value_or(0);
    if (o_.sessions && o_.sessions->system_prompt_tokens) {
      prefix_tokens_ = *o_.sessions->system_prompt_tokens;
    }
  }

  GeneratedTraffic run() {
    set_limit();
    const double group_size = o_.sessions ? turns_.mean() : static_cast<double>(o_.n);
    GroupClock clock(o_, rates_, group_size);
    while (size() < limit_) {
      const std::optional<double> at = clock.next();
      if (!at || (o_.duration_s && *at >= *o_.duration_s)) break;
      if (*at > kLongestRun_s) {
        refuse(ErrorCode::out_of_range, path_ + ".rate_per_s",
               "request {} would come after {:.6g} s; runs last at most {:.6g} s", size() + 1, *at,
               kLongestRun_s);
      }
      last_s_ = *at;
      add_group(static_cast<Ticks>(std::llround(*at * 1e12)));
    }
    if (size() > kMaxRequests) too_many();
    if (o_.exact_rate) stretch();
    return {std::move(traffic_), num_cut_};
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(traffic_.requests.size()); }

  std::vector<double> weights() const {
    const auto groups = static_cast<std::size_t>(o_.prefix_groups.value_or(1));
    std::vector<double> weights(groups);
    for (std::size_t k = 0; k < groups; ++k) {
      weights[k] = std::pow(static_cast<double>(k + 1), -o_.prefix_zipf.value_or(0));
    }
    return weights;
  }

  void set_limit() {
    // One more than are allowed, so that too many are noticed.
    limit_ = kMaxRequests + 1;
    if (o_.duration_s && o_.rate_per_s && rates_ == nullptr &&
        *o_.duration_s * *o_.rate_per_s > 2.0 * kMaxRequests) {
      too_many();
    }
    if (o_.num_requests) {
      limit_ = *o_.num_requests;
    } else if (lengths_ != nullptr && o_.in_order && !o_.duration_s && rates_ == nullptr) {
      limit_ = static_cast<std::int64_t>(lengths_->requests.size());
    } else if (!o_.duration_s && rates_ == nullptr) {
      limit_ = 1000;
    }
    if (limit_ <= kMaxRequests) {
      traffic_.requests.reserve(static_cast<std::size_t>(limit_));
    }
  }

  [[noreturn]] void too_many() const {
    refuse(ErrorCode::out_of_range, path_ + (o_.duration_s ? ".duration_s" : ".num_requests"),
           "more than {} requests; shorten it, or lower the rate", kMaxRequests);
  }

  void add_group(Ticks at) {
    Request first;
    first.arrival = at;
    first.max_tokens = o_.max_tokens.value_or(0);
    draw_prefix(first);
    if (o_.sessions) {
      add_session(first);
      return;
    }
    draw_lengths(first);
    first.prompt_tokens += first.prefix_tokens;
    check_length(first.prompt_tokens);
    if (o_.n > 1) first.stream = next_stream_++;
    traffic_.requests.push_back(first);
    for (std::int64_t i = 1; i < o_.n && size() < limit_; ++i) {
      Request& child = traffic_.requests.emplace_back(first);
      if (lengths_ == nullptr) child.output_tokens = limited(output_.draw(outputs_));
    }
  }

  void add_session(Request turn) {
    const std::int64_t turns = turns_.draw(sessions_);
    turn.stream = next_stream_++;
    std::int64_t history = turn.prefix_tokens;
    for (std::int64_t k = 0; k < turns && size() < limit_; ++k) {
      if (k > 0) {
        turn.after = size() - 1;
        const double think_s = -o_.sessions->think_s * std::log(open_uniform(sessions_));
        turn.arrival = static_cast<Ticks>(std::llround(think_s * 1e12));
      }
      draw_lengths(turn);
      turn.prompt_tokens += history;
      history = turn.prompt_tokens + turn.output_tokens;
      check_length(history);
      traffic_.requests.push_back(turn);
    }
  }

  void draw_prefix(Request& request) {
    if (prefix_tokens_ == 0) return;
    // Both are drawn for every arrival, so that the share changes no group.
    const bool has_one = prefixes_.uniform() < o_.prefix_share.value_or(1);
    const auto group = static_cast<std::int64_t>(group_.draw(prefixes_));
    if (!has_one) return;
    request.prefix_group = group;
    request.prefix_tokens = prefix_tokens_;
  }

  void draw_lengths(Request& request) {
    if (lengths_ == nullptr) {
      request.prompt_tokens = prompt_.draw(prompts_);
      request.output_tokens = limited(output_.draw(outputs_));
      return;
    }
    const auto count = static_cast<std::int64_t>(lengths_->requests.size());
    const std::int64_t row = o_.in_order ? next_row_++ % count : prompts_.integer(0, count - 1);
    const TracedRequest& pair = lengths_->requests[static_cast<std::size_t>(row)];
    request.prompt_tokens = pair.prompt_tokens;
    request.output_tokens = limited(pair.output_tokens);
  }

  std::int64_t limited(std::int64_t output_tokens) {
    if (!o_.max_tokens || output_tokens <= *o_.max_tokens) return output_tokens;
    ++num_cut_;
    return *o_.max_tokens;
  }

  void check_length(std::int64_t tokens) const {
    if (tokens <= kMaxTokensPerRequest) return;
    refuse(ErrorCode::out_of_range, path_ + (o_.sessions ? ".sessions" : ".prefix_tokens"),
           "request {} would have {} tokens with all that comes before; at most {} are allowed",
           size() + 1, tokens, kMaxTokensPerRequest);
  }

  void stretch() {
    const double factor = static_cast<double>(size()) / *o_.rate_per_s / last_s_;
    for (Request& request : traffic_.requests) {
      if (request.after >= 0) continue;
      request.arrival =
          to_ticks(to_seconds(request.arrival) * factor, path_ + ".rate_per_s: an arrival");
    }
  }

  const TrafficOptions& o_;
  const RequestTrace* lengths_;
  const std::string& path_;
  Rng prompts_, outputs_, prefixes_, sessions_;
  LengthSampler prompt_, output_, turns_;
  IndexSampler group_;
  const RateFunction* rates_;
  std::int64_t prefix_tokens_ = 0, next_stream_ = 0, next_row_ = 0, limit_ = 0, num_cut_ = 0;
  double last_s_ = 0;
  Traffic traffic_;
};

}  // namespace

double RateFunction::mean_per_s() const {
  double requests = 0;
  for (std::size_t i = 0; i < start_s.size(); ++i) {
    requests += rate_per_s[i] * ((i + 1 < start_s.size() ? start_s[i + 1] : end_s) - start_s[i]);
  }
  return requests / end_s;
}

GeneratedTraffic generate(const TrafficOptions& options, const Sources& sources,
                          const std::string& path) {
  return Generator(options, sources, path).run();
}

void set_classes(const TrafficOptions& options, Traffic& traffic) {
  if (options.classes.empty()) return;
  std::vector<double> shares;
  std::vector<std::int32_t> models;
  const bool names_models = !options.classes.front().model.empty();
  if (names_models) traffic.models.clear();
  for (const RequestClass& each : options.classes) {
    shares.push_back(each.share);
    if (!names_models) continue;
    const auto known = std::find(traffic.models.begin(), traffic.models.end(), each.model);
    models.push_back(static_cast<std::int32_t>(known - traffic.models.begin()));
    if (known == traffic.models.end()) traffic.models.push_back(each.model);
  }
  const IndexSampler sampler(shares);
  Rng rng = stream_of(options.seed, Draws::classes);
  std::unordered_map<std::int64_t, std::size_t> of_stream;
  for (Request& request : traffic.requests) {
    std::size_t drawn = 0;
    if (request.stream < 0) {
      drawn = sampler.draw(rng);
    } else {
      const auto [known, is_new] = of_stream.try_emplace(request.stream, 0);
      if (is_new) known->second = sampler.draw(rng);
      drawn = known->second;
    }
    request.priority = options.classes[drawn].priority;
    request.slo_class = options.classes[drawn].slo_class;
    if (names_models) request.model = models[drawn];
  }
}

void set_patience(const TrafficOptions& options, Traffic& traffic) {
  if (!options.patience_s) return;
  Rng rng = stream_of(options.seed, Draws::patience);
  for (Request& request : traffic.requests) {
    const double seconds = -*options.patience_s * std::log(open_uniform(rng));
    request.cancel_after = static_cast<Ticks>(std::llround(seconds * 1e12));
  }
}

std::int64_t limit_outputs(const TrafficOptions& options, Traffic& traffic) {
  if (!options.max_tokens) return 0;
  std::int64_t num_cut = 0;
  for (Request& request : traffic.requests) {
    request.max_tokens = *options.max_tokens;
    if (request.output_tokens <= request.max_tokens) continue;
    request.output_tokens = request.max_tokens;
    ++num_cut;
  }
  return num_cut;
}

}  // namespace tessera::serving
