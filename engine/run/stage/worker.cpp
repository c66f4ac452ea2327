#include "tessera/run/worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/run/record_body.h"

namespace tessera::run {
namespace {

template <class T>
std::int64_t bytes_of(const std::vector<T>& list) {
  return std::ssize(list) * static_cast<std::int64_t>(sizeof(T));
}

}  // namespace

Worker::Worker(std::int32_t rank, Transport& transport, StageLoader loader, Joiner joiner)
    : rank_(rank), transport_(transport), loader_(std::move(loader)), joiner_(std::move(joiner)) {}

void Worker::on(Event event) {
  const bool of_old_group = group_ && event.type != Event::Type::message && event.peer != kMaster &&
                            event.message.header.epoch != epoch_;
  if (of_old_group) return;
  switch (event.type) {
    case Event::Type::joined:
      if (due_) connected_.insert(event.peer);
      return report_when_connected();
    case Event::Type::lost:
    case Event::Type::unreachable:
      return lose(event);
    case Event::Type::message:
      break;
  }
  try {
    take(event.message, event.peer);
  } catch (const Error& error) {
    fail(std::string(name_of(error.code())).c_str(), error.message(), error.where());
  } catch (const std::bad_alloc&) {
    fail("io", "there is no memory left", "");
  }
}

void Worker::lose(const Event& event) {
  if (event.peer == kMaster) {
    why_ = fmt::format("the master {}", event.why);
    done_ = true;
    return;
  }
  if (due_ && event.peer == rank_) return fail("io", event.why, "transport");
  const auto feed = std::ranges::find(feeds_, event.peer, &Feed::rank);
  if (feed == feeds_.end()) return;
  connected_.erase(event.peer);
  // The master says what is to be done; while it has this one load or begin anew, that is to look
  // for a neighbour where it was.
  if (!due_) return report(Kind::unlinked, record_body(Unlinked{event.peer, event.why}));
  if (event.type == Event::Type::lost)
    return transport_.connect(feed->rank, {feed->host, feed->port});
  fail("io", fmt::format("rank {} {}", event.peer, event.why), "");
}

void Worker::take(const Message& message, Peer from) {
  const Header& header = message.header;
  const bool of_master = from == kMaster;
  if (header.kind == Kind::hidden && !of_master) {
    if (header.epoch >= epoch_) {
      inputs_.insert_or_assign({header.epoch, header.step}, hidden_states_of(message));
    }
    return;
  }
  if (header.kind == Kind::attend && !of_master) {
    if (server_ && header.epoch == epoch_) server_->take(from, message);
    return;
  }
  if (header.kind == Kind::attended && !of_master) return;  // of a step that was lost
  if (header.kind == Kind::blocks && !of_master) {
    if (header.epoch != epoch_ || !part_) return;
    arrivals_.push_back({header.step, blocks_of(message)});
    return put_arrivals();
  }
  if (!of_master) refuse("message", "{} from rank {}", name_of(header.kind), from);
  switch (header.kind) {
    case Kind::load:
      return load(message);
    case Kind::reset:
      return reset(message);
    case Kind::step:
      if (!part_) refuse("message", "a step before anything was loaded");
      if (header.epoch == epoch_ && server_) {
        server_->take(header.step, step_order_of(message));
      } else if (header.epoch == epoch_) {
        orders_.push_back({header.step, step_order_of(message), transport_.now()});
      }
      return;
    case Kind::give:
      if (!part_) refuse("message", "blocks wanted before anything was loaded");
      if (header.epoch == epoch_) give(message);
      return;
    case Kind::group:
      if (group_ && header.epoch == epoch_) group_->learn(group_key_of(message));
      return;
    case Kind::stop:
      done_ = true;
      return;
    default:
      refuse("message", "{} from the master", name_of(header.kind));
  }
}

// The step that wrote them has ended everywhere, and nobody writes them before all have come.
void Worker::give(const Message& message) {
  const GiveOrder order = give_order_of(message);
  const Header header{.kind = Kind::blocks, .epoch = epoch_, .step = message.header.step};
  for (const GiveOrder::Part& part : order.parts) {
    const Blocks blocks{part.first_layer, part.last_layer, order.after_step, order.to,
                        part_->read(order.from, part.first_layer, part.last_layer)};
    transport_.send(part.rank, header, body_of(blocks));
  }
}

void Worker::put_arrivals() {
  std::erase_if(arrivals_, [&](const Arrival& arrival) {
    const Blocks& blocks = arrival.blocks;
    if (blocks.after_step > computed_) return false;
    part_->write(blocks.blocks, blocks.first_layer, blocks.last_layer, blocks.data);
    transport_.send(kMaster, {.kind = Kind::taken, .epoch = epoch_, .step = arrival.request}, {});
    return true;
  });
}

void Worker::load(const Message& message) {
  const auto order = record_of<LoadOrder>(message);
  std::unique_ptr<StagePart> before = std::move(part_);
  begin_epoch(order.epoch);
  from_ = order.from;
  samples_ = order.with_head;
  activation_dtype_ = order.activation_dtype;
  emulated_ = order.emulated;
  server_.reset();
  if (order.attends) server_.emplace(transport_, emulated_);
  heads_.reset();
  const auto attends = std::ranges::find(order.feeds, Sent::heads, &Feed::sent);
  if (attends != order.feeds.end())
    heads_ = std::make_shared<HeadsLink>(transport_, attends->rank, order);
  due_ = Kind::loaded;
  group_options_ = {order.group, rank_, {}, epoch_, order.device, order.host};
  connect(order.feeds);
  part_ = loader_(order, std::move(before), heads_);
  join();
  report_when_connected();
}

void Worker::reset(const Message& message) {
  if (!part_) refuse("message", "a reset before anything was loaded");
  const auto order = record_of<ResetOrder>(message);
  begin_epoch(order.epoch);
  part_->forget(order.shared);
  from_ = order.from;
  due_ = Kind::ready;
  connect(order.feeds);
  join();
  report_when_connected();
}

// What belongs to older ones is lost.
void Worker::begin_epoch(std::int32_t epoch) {
  group_.reset();
  epoch_ = static_cast<std::uint32_t>(epoch);
  orders_.clear();
  result_.reset();
  arrivals_.clear();
  if (server_) server_->clear();
  inputs_.erase(inputs_.begin(), inputs_.lower_bound({epoch_, 0}));
}

void Worker::connect(const std::vector<Feed>& feeds) {
  for (const Feed& feed : feeds_) {
    // Who feeds this one from now on may have opened a link already, which would be closed.
    if (std::ranges::find(from_, feed.rank) == from_.end()) transport_.disconnect(feed.rank);
  }
  feeds_ = feeds;
  connected_.clear();
  if (!group_options_.ranks.empty()) return;
  for (const Feed& feed : feeds_) transport_.connect(feed.rank, {feed.host, feed.port});
}

// Once it is loaded: who has joined waits for the others' links for some seconds only.
void Worker::join() {
  if (group_options_.ranks.empty()) return;
  if (!joiner_) refuse(ErrorCode::unsupported, "transport", "c10d is not there");
  group_options_.epoch = epoch_;
  group_options_.from = from_.empty() ? std::nullopt : std::optional(from_.front());
  group_ = joiner_(group_options_);
}

// Hidden states for one that is not there yet would be lost.
void Worker::report_when_connected() {
  if (!due_ || !part_) return;
  for (const Feed& feed : feeds_) {
    if (!connected_.contains(feed.rank)) return;
  }
  const Kind kind = *due_;
  due_.reset();
  report(kind, kind == Kind::loaded ? record_body(part_->loaded()) : std::vector<std::byte>{});
}

// When the step can begin; kNoTime: what it works on has not come.
Nanoseconds Worker::input_at(const Order& order) const {
  if (is_first()) return order.came + order.order.link_time;
  const auto found = inputs_.find({epoch_, order.step});
  if (found == inputs_.end()) return kNoTime;
  const Nanoseconds link = order.order.link_time + emulated_.link_time(found->second.sent_bytes());
  const std::vector<StageTimes>& times = found->second.times;
  if (link == 0 || times.empty()) return 0;
  return std::max(times.back().end, link_free_) + link;
}

HiddenStates Worker::take_input(const Order& order) {
  if (is_first()) return {};
  link_free_ = input_at(order);
  return std::move(inputs_.extract({epoch_, order.step}).mapped());
}

Nanoseconds Worker::wake_at() const {
  if (done_) return kNoTime;
  if (server_) return server_->wake_at();
  if (result_) return result_->due;
  return orders_.empty() ? kNoTime : input_at(orders_.front());
}

bool Worker::work() {
  const Nanoseconds at = wake_at();
  if (at == kNoTime || at > transport_.now()) return false;
  try {
    if (server_) {
      server_->work(*part_);
    } else if (result_) {
      hand_on();
    } else {
      HiddenStates input = take_input(orders_.front());
      const Order order = std::move(orders_.front());
      orders_.pop_front();
      compute(order, std::move(input));
    }
  } catch (const StepLost&) {
    orders_.clear();  // until the reset
  } catch (const Error& error) {
    fail(std::string(name_of(error.code())).c_str(), error.message(), error.where());
  } catch (const std::bad_alloc&) {
    fail("io", "there is no memory left", "");
  }
  return true;
}

void Worker::compute(const Order& order, HiddenStates input) {
  const Nanoseconds start = transport_.now();
  if (heads_) heads_->begin(order.step, epoch_);
  Result result{order.step, start + order.order.least_time, std::move(input), {}};
  part_->run(order.order, result.hidden.rows);
  if (samples_) result.token_ids = part_->sample(order.order, result.hidden.rows);
  result.hidden.dtype = activation_dtype_;
  const std::int64_t sent = samples_ ? bytes_of(result.token_ids) : result.hidden.sent_bytes();
  const Nanoseconds computed = transport_.now();
  result.hidden.times.push_back({start, computed, 0, sent});
  const Nanoseconds ends = heads_ ? heads_->due() : start + emulated_.stretched(computed - start);
  result.due = std::max(result.due, ends);
  result_ = std::move(result);
  ++num_steps_;
  computed_ = order.step;
  put_arrivals();
  if (result_->due <= transport_.now()) hand_on();
}

void Worker::hand_on() {
  Result result = std::move(*result_);
  result_.reset();
  HiddenStates& hidden = result.hidden;
  StageTimes& times = hidden.times.back();
  times.end = transport_.now();
  Header header{.kind = Kind::hidden, .epoch = epoch_, .step = result.step};
  if (samples_) {
    header.kind = Kind::tokens;
    const StepTokens tokens{std::move(hidden.times), std::move(result.token_ids)};
    transport_.send(kMaster, header, body_of(tokens));
  } else {
    const std::vector<std::byte> body = body_of(hidden);
    for (const Feed& feed : feeds_) {
      if (feed.sent != Sent::hidden) continue;
      if (group_) {
        group_->send(feed.rank, header, body);
      } else {
        transport_.send(feed.rank, header, body);
      }
    }
  }
}

void Worker::report(Kind kind, std::vector<std::byte> body) {
  transport_.send(kMaster, {.kind = kind, .epoch = epoch_}, std::move(body));
}

void Worker::fail(const char* code, const std::string& message, const std::string& where) {
  why_ = message;
  report(Kind::failed, record_body(Failure{code, message, where}));
  done_ = true;
}

}  // namespace tessera::run
