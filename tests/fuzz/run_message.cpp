// Messages of a run, header and body: whatever a peer sends.
#include <algorithm>
#include <array>

#include "target.h"
#include "tessera/core/record_json.h"
#include "tessera/run/group_link.h"
#include "tessera/run/handshake.h"
#include "tessera/run/step_messages.h"
#include "tessera/run/worker_records.h"

namespace {

using namespace tessera;
using namespace tessera::run;

template <class Record>
void read_record(const Message& message) {
  const std::string name(name_of(message.header.kind));
  const auto record = from_json<Record>(parse_json(text_of(message), name), name);
  const Json json = json_of(record);
  fuzz::require(json_of(from_json<Record>(json, name)) == json, "it reads back as something else");
}

template <class Body>
void require_same(const Message& message, const Body& body, Body (*read)(const Message&)) {
  const Message again{message.header, body_of(body)};
  fuzz::require(body_of(read(again)) == again.body, "it reads back as something else");
}

void read_body(const Message& message) {
  switch (message.header.kind) {
    case Kind::hello: {
      Greeting greeting = Greeting::accepting("a secret", "1.0 abc");
      const auto saying = greeting.take(message);
      fuzz::require(saying && saying->kind == Kind::welcome && !greeting.is_over(),
                    "a hello is not enough to be let in");
      return;
    }
    case Kind::welcome:
      Greeting::opening("a secret", Hello{"1.0 abc", 1, "", 0, 0}).take(message);
      return fuzz::require(false, "a MAC was guessed");
    case Kind::proof:
      return read_record<Proof>(message);
    case Kind::load: {
      read_record<LoadOrder>(message);
      const auto order = from_json<LoadOrder>(parse_json(text_of(message), "load"), "load");
      fuzz::require(request_of(order).layers.size() == order.bitwidths.size(),
                    "a layer got no bitwidth");
      return;
    }
    case Kind::loaded:
      return read_record<Loaded>(message);
    case Kind::reset:
      return read_record<ResetOrder>(message);
    case Kind::failed:
      return read_record<Failure>(message);
    case Kind::unlinked:
      return read_record<Unlinked>(message);
    case Kind::step:
      return require_same(message, step_order_of(message), step_order_of);
    case Kind::hidden:
      return require_same(message, hidden_states_of(message), hidden_states_of);
    case Kind::attend:
    case Kind::attended:
      return require_same(message, head_rows_of(message), head_rows_of);
    case Kind::tokens:
      return require_same(message, step_tokens_of(message), step_tokens_of);
    case Kind::give:
      return require_same(message, give_order_of(message), give_order_of);
    case Kind::blocks:
      return require_same(message, blocks_of(message), blocks_of);
    case Kind::group:
      return require_same(message, group_key_of(message), group_key_of);
    case Kind::refused:
    case Kind::ready:
    case Kind::taken:
    case Kind::ping:
    case Kind::pong:
    case Kind::stop:
      return;
  }
}

}  // namespace

TESSERA_FUZZ_TARGET(run_message) {
  return fuzz::read(data, size, [](std::string_view input) {
    std::array<std::byte, kHeaderBytes> head{};
    const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
    std::copy_n(bytes, std::min(input.size(), head.size()), head.begin());
    Message message{decode_header(head), {}};
    input.remove_prefix(std::min(input.size(), head.size()));
    message.body = body_of(std::string(input));
    message.header.length = message.body.size();
    read_body(message);
  });
}
