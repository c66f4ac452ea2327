// Tensor-parallel ranks against the whole model, in threads and in processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "decoders.h"
#include "expect_error.h"
#include "folder.h"
#include "random_decoder.h"
#include "tessera/lm/reducer.h"
#include "tiny_llama.h"

namespace tessera::lm::ranks_test {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

// The bound that was asked for; sums in another order move these logits by 1e-6 or so.
constexpr double kBound = 1e-4;

/// Rank by rank on threads of its own; throws what the first of them has thrown.
template <class F>
void on_threads(std::int32_t ranks, const F& f) {
  const auto memory = SharedRanks::create(ranks);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(std::shared_ptr<Reducer>(memory->reducer(rank, 20s)));
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
}

LoadRequest of_rank(LoadRequest request, std::shared_ptr<Reducer> reducer) {
  request.rank = reducer->rank();
  request.ranks = reducer->ranks();
  request.reducer = std::move(reducer);
  request.num_threads = 1;
  return request;
}

/// What greedy decoding makes of a prompt: its tokens, and the logits of all of them.
struct Text {
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;
};

Text greedy(const LanguageModel& model, std::vector<std::int32_t> tokens, int count) {
  Text run;
  const auto cache = model.make_cache(12, 4);
  const auto table = blocks_down(0, 12);
  const auto vocab = static_cast<std::size_t>(model.shape().vocab_size);
  std::size_t done = 0;
  for (int i = 0; i < count; ++i) {
    const SequenceStep step{.tokens = std::span(tokens).subspan(done),
                            .context_tokens = static_cast<std::int64_t>(done),
                            .block_table = table,
                            .num_logits = static_cast<std::int64_t>(tokens.size() - done)};
    std::vector<float> logits((tokens.size() - done) * vocab);
    model.step({&step, 1}, *cache, logits);
    run.logits.insert(run.logits.end(), logits.begin(), logits.end());
    done = tokens.size();
    const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocab);
    tokens.push_back(static_cast<std::int32_t>(std::max_element(last, logits.end()) - last));
  }
  run.tokens = std::move(tokens);
  return run;
}

/// All ranks of a model have the bits of each other, and nearly those of the whole.
void expect_whole(const LoadRequest& request, std::int32_t ranks,
                  const std::vector<std::int32_t>& prompt, double bound = kBound) {
  const auto whole = load_decoder(request);
  const Text expected = greedy(*whole, prompt, 6);
  const std::int64_t cache_bytes = whole->make_cache(3, 4)->bytes();
  std::vector<Text> runs(static_cast<std::size_t>(ranks));
  on_threads(ranks, [&](std::shared_ptr<Reducer> reducer) {
    const auto model = load_decoder(of_rank(request, reducer));
    EXPECT_EQ(model->make_cache(3, 4)->bytes() * ranks, cache_bytes);
    EXPECT_LT(model->weight_bytes(), whole->weight_bytes());
    runs[static_cast<std::size_t>(reducer->rank())] = greedy(*model, prompt, 6);
  });
  for (const Text& run : runs) {
    EXPECT_EQ(run.logits, runs.front().logits);
    EXPECT_EQ(run.tokens, runs.front().tokens);
  }
  EXPECT_LT(relative_error(runs.front().logits, expected.logits), bound);
  if (bound <= kBound) {
    EXPECT_EQ(runs.front().tokens, expected.tokens);
  }
}

const std::vector<std::int32_t> kPrompt = {3, 17, 5, 41, 8, 8, 29, 1, 33};

class Ranks : public test::FolderTest {};

TEST_F(Ranks, GiveWhatTheWholeModelGives) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto ranks = static_cast<std::int32_t>(2 + seed % 3);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(ranks));
    RandomDecoder(seed, ranks).write(folder_);
    expect_whole({.path = folder_}, ranks, kPrompt);
    if (HasFailure()) return;
  }
}

// Fused and transposed matrices, experts, ALiBi, norms after the sums, permuted heads of GGUF.
TEST_F(Ranks, ShareModelsOfEveryFamily) {
  for (const char* name : {"opt",          "opt_postnorm",      "bloom",      "llama3",
                           "llama_bias",   "qwen2_window",      "qwen2_moe",  "qwen3",
                           "qwen3_moe",    "mixtral",           "gemma2",     "gemma3",
                           "falcon_new",   "falcon_alibi",      "gptj",       "cohere_qk_norm",
                           "dots1",        "exaone4",           "glm",        "gpt_neox",
                           "gpt_oss",      "granitemoe",        "mpt",        "phi3",
                           "gpt2",         "gpt2_scaled",       "gguf/bloom", "gguf/falcon_new",
                           "gguf/gemma2",  "gguf/llama_blocks", "gguf/gpt2",  "gguf/llama3",
                           "gguf/mixtral", "gguf/qwen3moe"}) {
    SCOPED_TRACE(name);
    expect_whole({.path = decoder_path(name)}, 2, kPrompt);
  }
  for (const std::int32_t ranks : {3, 6})
    expect_whole({.path = decoder_path("bloom_heads6")}, ranks, kPrompt);
}

TEST_F(Ranks, ShareCodesOfTheWhole) {
  test::TinyLlama tiny(11);
  tiny.write(folder_);
  tiny.write_statistics(path("statistics"));
  LayerForm form{.bitwidth = 4};
  const auto expect = [&](double bound = kBound) {
    const std::vector<LayerForm> layers(test::TinyLlama::kLayers, form);
    expect_whole({.path = folder_, .layers = layers, .statistics = path("statistics")}, 2, kPrompt,
                 bound);
  };
  form.scheme.group_size = 16;
  for (const auto method : {quant::Method::rtn, quant::Method::gptq, quant::Method::awq}) {
    form.method = method;
    expect();
  }
  form.method = quant::Method::rtn;
  form.scheme.granularity = quant::Granularity::channel;
  expect();
  // Activations are rounded share by share: another rounding, as good as that of the whole.
  form = {.bitwidth = 8, .int8 = true};
  expect(0.05);
}

TEST_F(Ranks, RefuseNormsOverAllHeads) {
  expect_error(ErrorCode::unsupported, {"norms the queries of all heads as one"},
               [] { load_decoder({.path = decoder_path("olmo2"), .ranks = 2}); });
}

TEST_F(Ranks, RefuseWhatCannotBeShared) {
  const auto load = [&](LoadRequest request) { load_decoder(std::move(request)); };
  const std::string llama = decoder_path("llama3");
  expect_error(ErrorCode::out_of_range,
               {"ranks: layer 0 of llama3 has 4 heads, 2 KV heads, 48 columns of down_proj, which "
                "3 ranks do not share evenly; these do: 1, 2"},
               [&] { load({.path = llama, .ranks = 3}); });
  expect_error(ErrorCode::out_of_range, {"falcon has 4 heads, 1 KV heads", "these do: 1"},
               [&] { load({.path = decoder_path("falcon"), .ranks = 2}); });
  expect_error(ErrorCode::out_of_range, {"rank: 2 of 2 ranks; they count from 0"},
               [&] { load({.path = llama, .rank = 2, .ranks = 2}); });
  expect_error(ErrorCode::out_of_range, {"rank: 0 of 0 ranks"},
               [&] { load({.path = llama, .ranks = 0}); });
  const auto memory = SharedRanks::create(2);
  const std::shared_ptr<Reducer> reducer = memory->reducer(1, 1s);
  expect_error(ErrorCode::invalid_argument, {"reducer: it is that of rank 1 of 2, for rank 0 of 2"},
               [&] { load({.path = llama, .ranks = 2, .reducer = reducer}); });
  test::TinyLlama(5).write(folder_);
  const LayerForm form{.bitwidth = 4, .scheme = {.group_size = 64}};
  expect_error(ErrorCode::invalid_argument,
               {"layer 0 o_proj", "columns [32, 64) of its 64 cut groups of 64"}, [&] {
                 load({.path = folder_,
                       .layers = std::vector<LayerForm>(test::TinyLlama::kLayers, form),
                       .rank = 1,
                       .ranks = 2});
               });
}

TEST_F(Ranks, NeedEachOtherForLayersAlone) {
  const auto model = load_decoder({.path = decoder_path("llama3"), .rank = 1, .ranks = 2});
  const auto cache = model->make_cache(3, 4);
  const auto table = blocks_down(0, 3);
  const SequenceStep step{
      .tokens = kPrompt, .context_tokens = 0, .block_table = table, .num_logits = 1};
  std::vector<float> logits(static_cast<std::size_t>(model->shape().vocab_size));
  expect_error(ErrorCode::invalid_argument, {"reducer: rank 1 of 2 of llama3 has none"}, [&] {
    model->step({&step, 1}, *cache, logits);
  });
  expect_error(ErrorCode::unsupported, {"rank 1 of 2 sees a share"}, [&] {
    model->observe({&step, 1}, *cache, {});
  });
  std::vector<float> hidden(kPrompt.size() * static_cast<std::size_t>(model->shape().hidden_size));
  model->embed({&step, 1}, hidden);
  model->head(std::span(hidden).first(static_cast<std::size_t>(model->shape().hidden_size)),
              logits);
}

/// The exit status of a child process that does `f`; 9 where it throws.
template <class F>
pid_t in_child(const F& f) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  int status = 9;
  try {
    status = f();
  } catch (...) {
  }
  _exit(status);
}

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(Ranks, MeetAsProcesses) {
  RandomDecoder(4, 3).write(folder_);
  const Text expected = greedy(*load_decoder({.path = folder_, .num_threads = 1}), kPrompt, 6);
  const auto memory = SharedRanks::create(3);
  const std::string name = memory->path();
  const auto run = [&](const SharedRanks& shared, std::int32_t rank) {
    const auto model = load_decoder(of_rank({.path = folder_}, shared.reducer(rank, 20s)));
    const Text found = greedy(*model, kPrompt, 6);
    return found.tokens == expected.tokens &&
           relative_error(found.logits, expected.logits) < kBound;
  };
  const pid_t forked = in_child([&] { return run(*memory, 1) ? 0 : 1; });
  const pid_t named = in_child([&] { return run(*SharedRanks::open(name), 2) ? 0 : 1; });
  EXPECT_TRUE(run(*memory, 0));
  EXPECT_EQ(status_of(forked), 0);
  EXPECT_EQ(status_of(named), 0);
}

TEST_F(Ranks, DoNotWaitForOneThatDied) {
  const auto memory = SharedRanks::create(3);
  const auto child = [&](std::int32_t rank, int sums) {
    return in_child([&, rank, sums] {
      std::vector<float> values(100, 1);
      const auto reducer = memory->reducer(rank, 1500ms);
      for (int i = 0; i < sums; ++i) reducer->sum(values);
      return raise(SIGKILL);
    });
  };
  const pid_t dying = child(1, 2), waiting = child(2, 5);
  const auto reducer = memory->reducer(0, 1500ms);
  std::vector<float> values(100, 1);
  for (int i = 0; i < 2; ++i) reducer->sum(values);
  EXPECT_EQ(status_of(dying), -SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  expect_error(ErrorCode::io, {"ranks: rank "}, [&] { reducer->sum(values); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  expect_error(ErrorCode::io, {"gave up"}, [&] { reducer->sum(values); });
  EXPECT_EQ(status_of(waiting), 9);
}

TEST(SharedRanks, AddInTheOrderOfTheRanks) {
  for (const std::int32_t ranks : {1, 2, 3, 5}) {
    SCOPED_TRACE(ranks);
    const std::vector<std::size_t> sizes = {1, 0, 1000, 7, 140000, 65536, 3};
    std::vector<std::vector<float>> found(static_cast<std::size_t>(ranks));
    const auto values_of = [&](std::int32_t rank) {
      Rng rng(static_cast<std::uint64_t>(100 + rank));
      std::vector<float> values(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
      for (float& value : values) value = test::draw(rng);
      return values;
    };
    std::vector<float> expected = values_of(0);
    for (std::int32_t rank = 1; rank < ranks; ++rank) {
      const auto values = values_of(rank);
      for (std::size_t i = 0; i < values.size(); ++i) expected[i] += values[i];
    }
    on_threads(ranks, [&](const std::shared_ptr<Reducer>& reducer) {
      std::vector<float> values = values_of(reducer->rank());
      std::span<float> rest = values;
      for (const std::size_t size : sizes) {
        reducer->sum(rest.first(size));
        rest = rest.subspan(size);
        if (size == 1000 && reducer->rank() == 1) std::this_thread::sleep_for(50ms);
      }
      found[static_cast<std::size_t>(reducer->rank())] = values;
    });
    for (const auto& values : found) EXPECT_EQ(values, expected);
  }
}

TEST(SharedRanks, GiveUpTogether) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> said(3);
  on_threads(3, [&](const std::shared_ptr<Reducer>& reducer) {
    std::vector<float> values(10);
    std::thread later;
    if (reducer->rank() == 1) {
      later = std::thread([&] {
        std::this_thread::sleep_for(100ms);
        reducer->abort();
      });
    } else {
      try {
        reducer->sum(values);
      } catch (const Error& error) {
        said[static_cast<std::size_t>(reducer->rank())] = error.what();
      }
    }
    if (later.joinable()) later.join();
  });
  EXPECT_EQ(said[0], "ranks: rank 1 of 3 gave up");
  EXPECT_EQ(said[2], "ranks: rank 1 of 3 gave up");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(SharedRanks, NoticeThatTheyStepDifferentBatches) {
  expect_error(ErrorCode::invalid_argument, {"ranks: rank 0 sums 10 values and rank 1 11"}, [] {
    const auto memory = SharedRanks::create(2);
    std::vector<float> values(11);
    std::thread other([&] {
      try {
        memory->reducer(1, 5s)->sum(values);
      } catch (const Error&) {  // it notices too, or hears of it
      }
    });
    try {
      memory->reducer(0, 5s)->sum(std::span(values).first(10));
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
  });
}

TEST_F(Ranks, MeetInTheirMemoryAlone) {
  expect_error(ErrorCode::out_of_range, {"ranks: 0 is outside [1, 64]"},
               [] { SharedRanks::create(0); });
  expect_error(ErrorCode::out_of_range, {"rank: 2 of 2 ranks"},
               [] { SharedRanks::create(2)->reducer(2, 1s); });
  expect_error(ErrorCode::io, {"nothing.there", "cannot be opened"},
               [&] { SharedRanks::open(path("nothing.there")); });
  expect_error(ErrorCode::invalid_argument, {"it is no memory of ranks"},
               [&] { SharedRanks::open(file("other", std::string(100000, 'x'))); });
}

}  // namespace
}  // namespace tessera::lm::ranks_test
