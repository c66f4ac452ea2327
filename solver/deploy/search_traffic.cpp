#include "tessera/solver/deploy/search_traffic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::solver {
namespace {

using serving::Traffic;
using serving::TrafficOptions;

constexpr double kGrain = 500;  // requests, so that searches share traffic

bool shares_tokens(const TrafficOptions& options) {
  return options.prefix_groups || options.prefix_tokens || options.sessions ||
         !options.trace.empty() || options.n > 1;
}

/// In the KV cache while a token is decoded, over the tokens of all requests; absent: none is.
std::optional<double> decode_context_of(const Traffic& traffic) {
  double tokens = 0, context = 0;
  for (const serving::Request& request : traffic.requests) {
    const auto own = static_cast<double>(request.output_tokens);
    tokens += own - 1;
    context += (own - 1) * (static_cast<double>(request.prompt_tokens) + own / 2);
  }
  if (tokens <= 0) return std::nullopt;
  return context / tokens;
}

}  // namespace

SearchTraffic::SearchTraffic(const TrafficSource& source, std::int64_t num_requests,
                             std::string path)
    : num_requests_(num_requests), path_(std::move(path)) {
  if (const auto* given = std::get_if<std::shared_ptr<const Traffic>>(&source)) {
    made_[0] = *given;
  } else {
    options_ = std::get<TrafficOptions>(source);
    if (options_->arrivals == serving::Arrivals::closed || options_->concurrency) {
      refuse(path_, "a closed loop has no rate; give open arrivals");
    }
    sized_ = !options_->num_requests && !options_->duration_s && options_->trace.empty();
    shares_ = shares_tokens(*options_);
    rate_per_s_ = options_->rate_per_s;
    if (!rate_per_s_ && options_->trace.empty()) options_->rate_per_s = 1;
  }
  const std::shared_ptr<const Traffic> sample = of(1);
  const serving::TrafficSummary known = serving::summary_of(*sample);
  if (!options_ || !options_->trace.empty()) rate_per_s_ = known.rate_per_s;
  lengths_ = {known.mean_prompt_tokens, known.mean_output_tokens, decode_context_of(*sample),
              shares_};
}

std::shared_ptr<const Traffic> SearchTraffic::of(std::int64_t num_engines, double least) {
  std::int64_t count = 0;
  if (sized_) {
    count = std::max(num_requests_ * num_engines,
                     static_cast<std::int64_t>(kGrain * std::ceil(least / kGrain)));
  }
  std::shared_ptr<const Traffic>& traffic = made_[count];
  if (traffic == nullptr) {
    if (sized_) options_->num_requests = count;
    traffic = std::make_shared<const Traffic>(serving::make_traffic(*options_, path_));
  }
  return traffic;
}

}  // namespace tessera::solver
