#include "starts.h"

#include <algorithm>
#include <numeric>

#include "tessera/solver/heuristic/heuristic_starts.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/instance/stage_rule.h"

namespace tessera::solver {
namespace {

constexpr std::size_t kMostOrders = 120;
constexpr std::size_t kMostPairs = 12;

}  // namespace

std::int64_t even_share(const Instance& instance, const PlanRequest& request) {
  const std::size_t stages = request.order ? request.order->size() : instance.num_devices();
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(1, stages));
  return (instance.batch_size + n - 1) / n;
}

std::vector<std::pair<std::int64_t, std::int64_t>> size_pairs(const Instance& instance,
                                                              const PlanRequest& request) {
  using Sizes = std::vector<std::int64_t>;
  const Sizes sizes = useful_micro_batch_sizes(instance);
  const Sizes prefills =
      request.prefill_micro_batch_size ? Sizes{*request.prefill_micro_batch_size} : sizes;
  Sizes decodes = request.decode_micro_batch_size ? Sizes{*request.decode_micro_batch_size} : sizes;
  if (instance.objective == Objective::paper && !request.decode_micro_batch_size) {
    decodes = {even_share(instance, request)};
  }
  const bool both = request.prefill_micro_batch_size && request.decode_micro_batch_size;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const std::int64_t prefill : prefills) {
    for (const std::int64_t decode : decodes) {
      if (prefill <= decode || both) pairs.emplace_back(prefill, decode);
    }
  }
  return pairs;
}

std::vector<std::vector<std::size_t>> block_orders(const Instance& instance,
                                                   const PlanRequest& request) {
  if (request.order) return {*request.order};
  std::vector<std::size_t> blocks(instance.groups.size());
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  const StageOrder rule(instance);
  std::vector<std::vector<std::size_t>> orders;
  std::size_t tried = 0;
  do {
    std::vector<std::size_t> order;
    for (const std::size_t g : blocks) {
      order.insert(order.end(), static_cast<std::size_t>(instance.groups[g].count), g);
    }
    if (!rule.breach(order)) orders.push_back(std::move(order));
  } while (++tried < kMostOrders && std::next_permutation(blocks.begin(), blocks.end()));
  return orders;
}

Starts::Starts(const Instance& instance, const PlanRequest& request, StartSet set)
    : instance_(instance),
      request_(request),
      set_(set),
      deadline_(std::make_unique<Deadline>(request_)),
      orders_(block_orders(instance, request)),
      pairs_(size_pairs(instance, request)),
      further_(instance, instance.num_devices()) {
  if (request.order || pairs_.empty()) return;
  // The order that adabits itself prefers goes first, so that no heuristic does worse than adabits.
  PlanRequest quiet = request;
  quiet.on_incumbent = nullptr;
  const PlanResult free = make_adabits_planner()->plan(instance, quiet);
  if (!free.candidate) return;
  std::erase(orders_, free.candidate->order);
  orders_.insert(orders_.begin(), free.candidate->order);
  last_ = free.candidate;
}

Starts::~Starts() = default;

PlanRequest Starts::request() const {
  PlanRequest left = request_;
  left.time_limit_s = deadline_->left_s();
  return left;
}

std::optional<Candidate> Starts::next() {
  while (queue_.empty() && !stopped_by_) {
    const auto order = next_order();
    if (!order) break;
    enqueue(*order);
  }
  if ((stopped_by_ = deadline_->reached()) || queue_.empty()) return std::nullopt;
  Candidate next = std::move(queue_.front());
  queue_.erase(queue_.begin());
  return next;
}

std::optional<std::vector<std::size_t>> Starts::next_order() {
  if (order_ < orders_.size()) return orders_[order_++];
  if (set_ != StartSet::all || request_.order || pairs_.empty()) return std::nullopt;
  auto order = further_.next();
  while (order && std::find(orders_.begin(), orders_.end(), *order) != orders_.end()) {
    order = further_.next();
  }
  return order;
}

// adabits at every pair, priced; the pairs at which it does best are the starts.
void Starts::enqueue(const std::vector<std::size_t>& order) {
  std::vector<std::pair<double, Candidate>> found;
  if (last_ && last_->order != order) last_.reset();
  for (const auto& [prefill, decode] : pairs_) {
    if ((stopped_by_ = deadline_->reached())) break;
    if (auto start = start_at(order, prefill, decode)) {
      const double objective = evaluate(instance_, *start).objective;
      found.emplace_back(objective, *std::move(start));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (set_ == StartSet::best) found.resize(std::min(found.size(), kMostPairs));
  for (auto& start : found) queue_.push_back(std::move(start.second));
}

// Quality and memory decide the start, and the sizes touch only memory: what fits at one pair is
// the start of the others too, as long as it still fits. (It may not be adabits' own plan at a
// smaller pair, which leaves layers more room; StartSet::all solves each.)
std::optional<Candidate> Starts::start_at(const std::vector<std::size_t>& order,
                                          std::int64_t prefill, std::int64_t decode) {
  if (last_ && set_ == StartSet::best) {
    last_->prefill_micro_batch_size = prefill;
    last_->decode_micro_batch_size = decode;
    if (!find_violation(instance_, *last_)) return last_;
  }
  PlanRequest at = request();
  at.order = order;
  PlanResult result = adabits_at(instance_, at, prefill, decode);
  if (!result.candidate) {
    if (result.violation) violation_ = std::move(result.violation);
    return std::nullopt;
  }
  last_ = std::move(result.candidate);
  return last_;
}

}  // namespace tessera::solver
