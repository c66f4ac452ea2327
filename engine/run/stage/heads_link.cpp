#include "tessera/run/heads_link.h"

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::run {

HeadsLink::HeadsLink(Transport& transport, Peer peer, const LoadOrder& order)
    : transport_(transport),
      peer_(peer),
      first_layer_(order.first_layer),
      emulated_(order.emulated) {}

void HeadsLink::begin(std::int64_t step, std::uint32_t epoch) {
  step_ = step;
  epoch_ = epoch;
  layer_ = first_layer_;
  begun_ = transport_.now();
}

Nanoseconds HeadsLink::due() const {
  return begun_ + emulated_.stretched(transport_.now() - begun_);
}

// What says that the step is lost is for the worker to hear, afterwards.
Wanted HeadsLink::judge(const Event& event) const {
  if (event.type != Event::Type::message) {
    const bool is_gone = event.type != Event::Type::joined;
    return is_gone && (event.peer == peer_ || event.peer == kMaster) ? Wanted::ends : Wanted::no;
  }
  const Header& header = event.message.header;
  if (event.peer == kMaster) return header.kind == Kind::step ? Wanted::no : Wanted::ends;
  const bool is_answer =
      event.peer == peer_ && header.kind == Kind::attended && header.epoch == epoch_;
  return is_answer ? Wanted::yes : Wanted::no;
}

void HeadsLink::hold(Nanoseconds until) {
  if (until <= transport_.now()) return;
  transport_.await(
      [this](const Event& event) {
        return judge(event) == Wanted::ends ? Wanted::ends : Wanted::no;
      },
      until);
  if (transport_.now() < until) throw StepLost(ErrorCode::io, "its step was given up");
}

void HeadsLink::send(std::vector<float> rows) {
  hold(due());
  const HeadRows heads{transport_.now(), layer_, std::move(rows)};
  transport_.send(peer_, {.kind = Kind::attend, .epoch = epoch_, .step = step_}, body_of(heads));
  begun_ = transport_.now();
}

std::vector<float> HeadsLink::receive() {
  hold(due());
  const auto event = transport_.await([this](const Event& e) { return judge(e); }, kNoTime);
  if (!event) throw StepLost(ErrorCode::io, "who attends for it does not answer");
  HeadRows heads = head_rows_of(event->message);
  if (event->message.header.step != step_ || heads.layer != layer_) {
    refuse("message", "attention of step {}, layer {}, and it is that of step {}, layer {}",
           event->message.header.step, heads.layer, step_, layer_);
  }
  const Nanoseconds link = emulated_.link_time(heads.sent_bytes());
  if (link > 0) {
    link_free_ = std::max(heads.sent, link_free_) + link;
    hold(link_free_);
  }
  ++layer_;
  begun_ = transport_.now();
  return std::move(heads.rows);
}

HeadsServer::HeadsServer(Transport& transport, const Emulation& emulated)
    : transport_(transport), emulated_(emulated) {}

void HeadsServer::take(std::int64_t step, StepOrder order) {
  orders_.emplace_back(step, std::move(order));
}

void HeadsServer::take(Peer from, const Message& rows) {
  asked_.push_back({from, rows.header, head_rows_of(rows)});
}

void HeadsServer::clear() {
  orders_.clear();
  asked_.clear();
  answer_.reset();
}

Nanoseconds HeadsServer::wake_at() const {
  if (answer_) return answer_->due;
  if (asked_.empty()) return kNoTime;
  const Asked& asked = asked_.front();
  const bool is_known = std::ranges::any_of(
      orders_, [&](const auto& order) { return order.first == asked.header.step; });
  if (!is_known) return kNoTime;  // the master's word comes on another link
  const Nanoseconds link = emulated_.link_time(asked.heads.sent_bytes());
  return link > 0 ? std::max(asked.heads.sent, link_free_) + link : 0;
}

void HeadsServer::work(StagePart& part) {
  if (answer_) {
    Asked asked = std::move(answer_->asked);
    answer_.reset();
    asked.heads.sent = transport_.now();
    asked.header.kind = Kind::attended;
    return transport_.send(asked.from, asked.header, body_of(asked.heads));
  }
  link_free_ = wake_at();
  Asked asked = std::move(asked_.front());
  asked_.pop_front();
  while (orders_.front().first < asked.header.step) orders_.pop_front();
  const Nanoseconds start = transport_.now();
  asked.heads.rows =
      part.attend(orders_.front().second, asked.heads.layer, std::move(asked.heads.rows));
  const Nanoseconds due = start + emulated_.stretched(transport_.now() - start);
  answer_ = {due, std::move(asked)};
  if (due <= transport_.now()) work(part);
}

}  // namespace tessera::run
