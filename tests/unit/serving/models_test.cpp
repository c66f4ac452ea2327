// Models that come and go on devices which they share: stretches and single steps, memory, requests
// for nobody.

#include "tessera/serving/models.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "expect_error.h"
#include "tessera/core/rng.h"
#include "tessera/serving/models_summary.h"
#include "tessera/serving/simulate.h"

namespace tessera::serving::models_test {
namespace {

/// A place for each model, and what was seen when it was asked for.
struct Book {
  std::vector<ModelPlacement> places;
  std::vector<DeviceView> seen = {};
};

class BookPlacer final : public Placer {
 public:
  explicit BookPlacer(Book& book) : book_(book) {}
  ModelPlacement place(std::size_t model, double, const std::vector<DeviceView>& devices) override {
    book_.seen.insert(book_.seen.end(), devices.begin(), devices.end());
    return book_.places.at(model);
  }

 private:
  Book& book_;
};

Replica engine(Ticks base, std::vector<std::vector<std::int32_t>> devices, double bytes) {
  LinearStepCost cost;
  cost.base = base;
  cost.per_context_token = base / 1000;
  Replica replica;
  replica.name = "engine";
  replica.cost = std::make_shared<LinearStepCost>(cost);
  replica.stage_bytes.assign(devices.size(), bytes);
  replica.devices = std::move(devices);
  return replica;
}

Deployment deployment_of(Book& book, std::vector<ServedModel> models, std::size_t num_devices) {
  auto set = std::make_shared<ModelSet>();
  set->models = std::move(models);
  set->devices.assign(num_devices, {"card", 100});
  set->make_placer = [&book](const Traffic&, const std::vector<DeviceView>&) {
    return std::make_unique<BookPlacer>(book);
  };
  Deployment deployment;
  deployment.models = std::move(set);
  return deployment;
}

Traffic random_traffic(Rng& rng, std::size_t num_models, std::int64_t count) {
  Traffic traffic;
  for (std::size_t i = 0; i < num_models; ++i) traffic.models.push_back(fmt::format("m{}", i));
  Ticks at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    at += kTicksPerSecond / 100 * rng.integer(0, 200);
    Request r;
    r.arrival = at;
    r.prompt_tokens = rng.integer(1, 200);
    r.output_tokens = rng.integer(1, 80);
    r.model = static_cast<std::int32_t>(rng.integer(0, static_cast<std::int64_t>(num_models) - 1));
    traffic.requests.push_back(r);
  }
  return traffic;
}

Log run(const Deployment& deployment, const Traffic& traffic, bool skip) {
  SimulationOptions options;
  options.skip = skip;
  return simulate(deployment, traffic, std::move(options));
}

auto facts(const RequestRecord& r) {
  return std::tuple(r.first_scheduled, r.first_token, r.last_token, r.output_tokens, r.replica,
                    r.outcome, r.is_unplaced, r.waited);
}

TEST(Models, StretchesAreSingleSteps) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const auto count = static_cast<std::size_t>(rng.integer(2, 5));
    Book book;
    std::vector<ServedModel> models;
    for (std::size_t i = 0; i < count; ++i) {
      ServedModel model{.name = fmt::format("m{}", i)};
      model.at_s = static_cast<double>(rng.integer(0, 40));
      if (rng.integer(0, 2) == 0) model.until_s = model.at_s + 20;
      models.push_back(model);
      ModelPlacement placement{.replicas = {}};
      for (std::int64_t k = rng.integer(1, 2); k > 0; --k) {
        const auto first = static_cast<std::int32_t>(rng.integer(0, 2));
        Replica replica = engine(kTicksPerSecond / 1000 * rng.integer(1, 40), {{first, 3}}, 10);
        replica.engine.max_num_seqs = rng.integer(1, 4);
        replica.engine.async_scheduling = rng.integer(0, 3) == 0;
        placement.replicas.push_back(replica);
      }
      placement.ready_after_s = static_cast<double>(rng.integer(0, 2));
      book.places.push_back(placement);
    }
    const Deployment deployment = deployment_of(book, models, 4);
    const Traffic traffic = random_traffic(rng, count, 60);
    const Log one = run(deployment, traffic, false);
    const std::vector<DeviceView> seen = std::exchange(book.seen, {});
    const Log many = run(deployment, traffic, true);
    ASSERT_EQ(one.cut_off, "");
    for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
      ASSERT_EQ(facts(one.requests[i]), facts(many.requests[i])) << "seed " << seed << ", " << i;
    }
    ASSERT_EQ(seen.size(), book.seen.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      ASSERT_EQ(seen[i].load, book.seen[i].load) << "seed " << seed;
      ASSERT_EQ(seen[i].free_bytes, book.seen[i].free_bytes) << "seed " << seed;
    }
    for (std::size_t i = 0; i < one.devices.size(); ++i) {
      ASSERT_EQ(one.devices[i].busy, many.devices[i].busy) << "seed " << seed;
      ASSERT_LE(one.devices[i].busy, one.end);
    }
    const SummaryOptions options;
    const ModelsSummary summary = summarise_models(one, summarise(one, options), options);
    std::int64_t requests = 0;
    for (const ModelSummary& model : summary.models) requests += model.run.num_requests;
    ASSERT_EQ(requests, std::ssize(traffic.requests));
  }
}

TEST(Models, AreRefusedMemoryThatIsNotFree) {
  const auto refused = [](Replica replica, const std::string& text) {
    Book book{{{.replicas = {engine(1000, {{0}}, 60)}}, {.replicas = {std::move(replica)}}}};
    const Deployment deployment = deployment_of(book, {{.name = "m0"}, {.name = "m1"}}, 2);
    Rng rng(1);
    const Traffic traffic = random_traffic(rng, 2, 5);
    test::expect_error(ErrorCode::invalid_argument, {text},
                       [&] { run(deployment, traffic, true); });
  };
  refused(engine(1000, {{0, 1}}, 50), "GPU 0 has 40 B free of 100 B, 50 B are needed");
  refused(engine(1000, {{2}}, 5), "there is no GPU 2 of 2");
  refused(engine(1000, {{1, 1}}, 5), "GPU 1 is there twice");
  Replica without = engine(1000, {{1}}, 5);
  without.stage_bytes.clear();
  refused(without, "give all three alike");
}

}  // namespace
}  // namespace tessera::serving::models_test
