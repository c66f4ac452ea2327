#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "results_rows.h"
#include "tessera/core/error.h"
#include "tessera/results/store.h"

namespace tessera::results::results_property_test {
namespace {

using test::all_rows;
using test::run_of;

// Files of one example, which go away with it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_test.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

double any_finite() {
  const double value = *rc::gen::arbitrary<double>();
  return std::isfinite(value) ? value : 0.5;
}

std::string any_text() {
  std::string text;
  for (const char* part : *rc::gen::container<std::vector<const char*>>(rc::gen::element(
           "a", "é", "\"", "'", ";", "\\", "\n", "\x01", "😀", "$.", "[0]", "%s", "--", "{", ","))) {
    text += part;
  }
  return text;
}

Json any_json(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
    case 0:
      return any_finite();
    case 1:
      return *rc::gen::inRange<std::int64_t>(-9007199254740992, 9007199254740993);
    case 2:
      return any_text();
    case 3:
      return *rc::gen::arbitrary<bool>();
    case 4:
      return nullptr;
    case 5: {
      Json list = Json::array();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) list.push_back(any_json(depth - 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) object[any_text()] = any_json(depth - 1);
      return object;
    }
  }
}

Json any_object() {
  Json object = Json::object();
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) object["c" + any_text()] = any_json(2);
  return object;
}

Row any_row() {
  Row row;
  row.point = any_object();
  row.columns = any_object();
  row.status = "s" + any_text();
  if (*rc::gen::inRange(0, 4) == 0) row.error = any_text();
  row.log = any_text();
  row.duration_s = std::fabs(any_finite());
  return row;
}

// Of every point, what is stored; equal maps are equal stores.
std::map<std::string, std::string> content_of(Store& store, std::int64_t run) {
  std::map<std::string, std::string> content;
  for (const Row& row : all_rows(store, run)) {
    const Json all = {{"status", row.status},
                      {"columns", row.columns},
                      {"error", row.error.value_or("none")},
                      {"log", row.log},
                      {"duration_s", row.duration_s},
                      {"order", *row.order}};
    RC_ASSERT(content.emplace(point_key(row.point), all.dump()).second);
  }
  return content;
}

RC_GTEST_PROP(Results, RandomRowsComeBack, ()) {
  const Folder folder;
  std::map<std::string, Row> expected;
  {
    Store store(folder.path("r.db"));
    const std::int64_t run = store.start_run(run_of("e"));
    for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
      const Row row = any_row();
      const std::string key = point_key(row.point);
      if (const auto known = expected.find(key);
          known != expected.end() && !known->second.failed()) {
        RC_ASSERT_THROWS_AS(store.add(run, row), Error);
        continue;
      }
      store.add(run, row);
      expected[key] = row;
    }
  }
  Store store(folder.path("r.db"), {.read_only = true});
  const std::vector<Row> rows = all_rows(store, 1);
  RC_ASSERT(rows.size() == expected.size());
  for (const Row& row : rows) {
    const Row& wanted = expected.at(point_key(row.point));
    RC_ASSERT(row.columns.dump() == wanted.columns.dump());
    RC_ASSERT(row.status == wanted.status);
    RC_ASSERT(row.error == wanted.error);
    RC_ASSERT(row.log == wanted.log);
    RC_ASSERT(row.duration_s == wanted.duration_s);
  }
}

RC_GTEST_PROP(Results, MergingIsIdempotentAndComplete, ()) {
  const Folder folder;
  const int num_shards = *rc::gen::inRange(1, 4);
  std::vector<std::string> paths;
  std::map<std::string, int> owner;
  for (int s = 0; s < num_shards; ++s) {
    paths.push_back(folder.path(std::to_string(s) + ".db"));
    Store(paths.back()).start_run(run_of("e"));
  }
  for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
    Row row = any_row();
    const int shard = *rc::gen::inRange(0, num_shards);
    if (!owner.emplace(point_key(row.point), shard).second) continue;
    Store(paths[static_cast<std::size_t>(shard)]).add(1, row);
  }
  Store all(folder.path("all.db"));
  const MergeReport first = all.merge(paths);
  RC_ASSERT(first.contradictions.empty());
  RC_ASSERT(first.num_rows == static_cast<std::int64_t>(owner.size()));
  const auto content = content_of(all, 1);
  RC_ASSERT(content.size() == owner.size());
  const MergeReport again = all.merge(paths);
  RC_ASSERT(again.num_rows == 0 && again.num_replaced == 0 && again.num_runs == 0);
  RC_ASSERT(again.num_duplicates == static_cast<std::int64_t>(owner.size()));
  RC_ASSERT(content_of(all, 1) == content);
}

}  // namespace
}  // namespace tessera::results::results_property_test
