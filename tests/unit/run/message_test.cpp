#include <gtest/gtest.h>

#include "expect_error.h"
#include "tessera/core/record_json.h"
#include "tessera/core/rng.h"
#include "tessera/run/handshake.h"
#include "tessera/run/step_messages.h"
#include "tessera/run/worker_records.h"

namespace tessera::run::message_test {
namespace {

using test::expect_error;

Message message_of(Kind kind, std::vector<std::byte> body) {
  return {{.kind = kind, .length = body.size()}, std::move(body)};
}

StepOrder random_order(Rng& rng) {
  StepOrder order;
  order.least_time = rng.integer(0, 2) * kSecond;
  order.link_time = rng.integer(0, 1000);
  const std::int64_t items = rng.integer(0, 5);
  for (std::int64_t i = 0; i < items; ++i) {
    StepItem item;
    item.request = rng.integer(0, 1'000'000);
    item.tokens = rng.integer(1, 20);
    item.context_tokens = rng.integer(0, 4000);
    item.draw = rng.integer(-1, 300);
    for (std::int64_t t = 0; t < item.tokens; ++t) item.token_ids.push_back(static_cast<int>(t));
    for (std::int64_t b = rng.integer(0, 9); b > 0; --b)
      item.block_table.push_back(static_cast<int>(b));
    order.items.push_back(std::move(item));
  }
  if (rng.integer(0, 1) == 1) {
    NewSampler sampler{.request = 4};
    sampler.options = {.temperature = 0.7,
                       .top_k = 5,
                       .top_p = 0.9,
                       .repetition_penalty = 1.5,
                       .seed = 1ull << 63};
    sampler.text = {1, 2, 3};
    order.samplers.push_back(sampler);
  }
  for (std::int64_t g = rng.integer(0, 3); g > 0; --g) order.gone.push_back(g);
  return order;
}

TEST(Message, HeadersComeBack) {
  for (const Kind kind : {Kind::hello, Kind::step, Kind::hidden, Kind::failed}) {
    const Header header{kind, 0xfffffffe, 1ll << 40, most_bytes(kind)};
    EXPECT_EQ(decode_header(encode(header)), header);
  }
}

TEST(Message, ForeignHeadersAreRefused) {
  auto bytes = encode({.kind = Kind::step});
  auto other = bytes;
  other[0] = std::byte{'G'};  // "GET / HTTP/1.1"
  expect_error(ErrorCode::invalid_argument, {"none of a run's"}, [&] { decode_header(other); });
  other = bytes;
  other[4] = std::byte{9};
  expect_error(ErrorCode::unsupported, {"protocol 9, this one 2"}, [&] { decode_header(other); });
  other = bytes;
  other[6] = std::byte{99};
  expect_error(ErrorCode::invalid_argument, {"no kind 99"}, [&] { decode_header(other); });
  auto large = encode({.kind = Kind::hello, .length = 5000});
  expect_error(ErrorCode::invalid_argument, {"hello of 5000 bytes, at most 4096"},
               [&] { decode_header(large); });
}

TEST(Message, StepsComeBackWhole) {
  Rng rng(7);
  for (int i = 0; i < 200; ++i) {
    const StepOrder order = random_order(rng);
    EXPECT_EQ(step_order_of(message_of(Kind::step, body_of(order))), order);
  }
  const HiddenStates hidden{{{1, 2}, {3, 4}}, {0.5f, -1e30f, 0}};
  EXPECT_EQ(hidden_states_of(message_of(Kind::hidden, body_of(hidden))), hidden);
  const HeadRows heads{5, 29, {0.25f, -1e30f, 0}};
  EXPECT_EQ(head_rows_of(message_of(Kind::attend, body_of(heads))), heads);
  expect_error(ErrorCode::out_of_range, {"layer is -1"}, [&] {
    head_rows_of(message_of(Kind::attended, body_of(HeadRows{0, -1, {}})));
  });
  for (const auto dtype : {kernels::Real::f16, kernels::Real::bf16}) {
    const HiddenStates halves{{{1, 2}}, {0.5f, -24, 0}, dtype};
    EXPECT_EQ(hidden_states_of(message_of(Kind::hidden, body_of(halves))), halves);
    EXPECT_EQ(body_of(hidden).size() - body_of(halves).size(), 3 * 2 + sizeof(StageTimes));
  }
  EXPECT_THROW(body_of(HiddenStates{{}, {1e5f}, kernels::Real::f16}), Error);
  EXPECT_NO_THROW(body_of(HiddenStates{{}, {1e5f}, kernels::Real::bf16}));
  const StepTokens tokens{{{1, 2}}, {5, -1}};
  EXPECT_EQ(step_tokens_of(message_of(Kind::tokens, body_of(tokens))), tokens);
  const GiveOrder give{
      .from = {4, 9}, .to = {0, 1}, .parts = {{2, 0, 3}, {3, 3, 7}}, .after_step = 12};
  EXPECT_EQ(give_order_of(message_of(Kind::give, body_of(give))), give);
  const Blocks blocks{3, 7, 12, {0, 1}, {std::byte{1}, std::byte{2}, std::byte{3}}};
  EXPECT_EQ(blocks_of(message_of(Kind::blocks, body_of(blocks))), blocks);
  expect_error(ErrorCode::out_of_range, {"2 blocks are to become 1"}, [&] {
    give_order_of(message_of(Kind::give, body_of(GiveOrder{.from = {4, 9}, .to = {0}})));
  });
  expect_error(ErrorCode::out_of_range, {"last_layer is 2"}, [&] {
    blocks_of(message_of(Kind::blocks, body_of(Blocks{3, 2, 0, {}, {}})));
  });
}

// Cut anywhere, or longer than it says: an error, never more memory than there are bytes.
TEST(Message, BrokenBodiesAreRefused) {
  Rng rng(8);
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::byte> body = body_of(random_order(rng));
    for (std::size_t length = 0; length < body.size();
         length += 1 + static_cast<std::size_t>(rng.integer(0, 12))) {
      const std::vector<std::byte> cut(body.begin(),
                                       body.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_THROW(step_order_of(message_of(Kind::step, cut)), Error);
    }
    std::vector<std::byte> longer = body;
    longer.push_back(std::byte{0});
    EXPECT_THROW(give_order_of(message_of(Kind::give, longer)), Error);
    EXPECT_THROW(blocks_of(message_of(Kind::blocks, longer)), Error);
    EXPECT_THROW(step_order_of(message_of(Kind::step, longer)), Error);
  }
  std::vector<std::byte> huge(16, std::byte{0});  // behind the two times
  huge.resize(24, std::byte{0xff});
  expect_error(ErrorCode::invalid_argument, {"step ends within a list"},
               [&] { step_order_of(message_of(Kind::step, huge)); });
}

TEST(Message, MacsDependOnAllThatIsSaid) {
  const Hello hello{"1.0 abc", 2, make_nonce(), 4000, 77};
  const std::string nonce = make_nonce(), mac = mac_of("secret", "open", hello, nonce);
  EXPECT_TRUE(is_same_mac(mac, mac_of("secret", "open", hello, nonce)));
  Hello other = hello;
  other.rank = 3;
  for (const std::string& wrong :
       {mac_of("Secret", "open", hello, nonce), mac_of("secret", "accept", hello, nonce),
        mac_of("secret", "open", other, nonce), mac_of("secret", "open", hello, make_nonce())}) {
    EXPECT_FALSE(is_same_mac(mac, wrong));
  }
  EXPECT_NE(hello.nonce, nonce);
}

TEST(Message, LoadOrdersKeepWhatLayersAre) {
  lm::LoadRequest request;
  request.path = "/models/x";
  request.kv_bitwidth = 8;
  for (const int bitwidth : {16, 4, 8, 3}) {
    lm::LayerForm form{.activation_bitwidth = 8};
    form.bitwidth = bitwidth;
    form.scheme.group_size = 64;
    form.int8 = bitwidth == 8;
    if (bitwidth < 16) form.scheme.bitwidth = bitwidth;
    request.layers.push_back(form);
  }
  const LoadOrder order =
      from_json<LoadOrder>(parse_json(json_text(json_of(load_order_of(request))), "load"), "load");
  const lm::LoadRequest back = request_of(order);
  EXPECT_EQ(back.path, request.path);
  EXPECT_EQ(back.kv_bitwidth, 8);
  ASSERT_EQ(back.layers.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(back.layers[i].bitwidth, request.layers[i].bitwidth);
    EXPECT_EQ(back.layers[i].int8, request.layers[i].int8);
    EXPECT_EQ(back.layers[i].activation_bitwidth, 8);
    EXPECT_EQ(back.layers[i].scheme.group_size, 64);
  }
}

}  // namespace
}  // namespace tessera::run::message_test
