#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <tuple>

#include "store_impl.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::results {
namespace {

// Runs that say the same of themselves; several in one file are told apart by their order.
using Identity = std::tuple<std::string, std::string, std::int64_t, bool>;

Identity identity_of(const RunSpec& spec) {
  return {spec.experiment, spec.origin.script_hash, spec.origin.seed, spec.quick};
}

// Whether two rows of one point say the same. Times and machines may differ.
bool same_outcome(const Row& a, const Row& b) {
  return a.status == b.status && canonical_json(a.columns) == canonical_json(b.columns);
}

std::string joined_shards(const std::string& a, const std::string& b) {
  if (b.empty() || (", " + a + ",").find(", " + b + ",") != std::string::npos) return a;
  return a.empty() ? b : a + ", " + b;
}

}  // namespace

/// Copies one file after the other into a store, within one transaction.
class Merge {
 public:
  Merge(Store& store, Store::Impl& impl, Prefer prefer, std::function<void(double)> progress)
      : store_(store), impl_(impl), prefer_(prefer), progress_(std::move(progress)) {
    for (const Run& run : store.runs()) runs_[identity_of(run.spec)].push_back(run.id);
  }

  /// The `index`-th of `num_files`.
  void copy_file(const std::string& path, std::size_t index, std::size_t num_files) {
    std::error_code error;
    if (std::filesystem::equivalent(path, store_.path(), error)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("results file {}: it cannot be merged into itself", quote(path, 300)),
                  path);
    }
    Store source(path, {.read_only = true});
    const std::vector<Run> runs = source.runs();
    std::int64_t num_rows = 0, num_read = 0;
    for (const Run& run : runs) num_rows += run.num_points;
    const auto note_row = [&] {
      const double share = static_cast<double>(++num_read) / static_cast<double>(num_rows);
      if (progress_) {
        progress_((static_cast<double>(index) + share) / static_cast<double>(num_files));
      }
    };
    std::map<Identity, std::size_t> seen;
    for (const Run& listed : runs) {
      const std::size_t ordinal = seen[identity_of(listed.spec)]++;
      Run run = listed;
      run.spec.script_text = source.script_text(run.id);
      copy_run(source, run, ordinal, note_row);
    }
  }

  MergeReport take_report() { return std::move(report_); }

 private:
  template <class NoteRow>
  void copy_run(Store& source, const Run& run, std::size_t ordinal, const NoteRow& note_row) {
    std::vector<std::int64_t>& ids = runs_[identity_of(run.spec)];
    const bool is_new = ordinal == ids.size();
    if (is_new) {
      ids.push_back(impl_.start_run(run.spec, run.created_at));
      impl_.set_claims(ids.back(), run.claims);
      ++report_.num_runs;
    } else {
      join(ids[ordinal], run);
    }
    const std::int64_t target = ids[ordinal];
    std::map<std::string, Row> stored;
    if (!is_new) {
      store_.each_row(target, [&](const Row& row) { stored.emplace(point_key(row.point), row); });
    }
    bool changed = false;
    source.each_row(run.id, [&](const Row& read) {
      note_row();
      const std::string key = point_key(read.point);
      const auto found = stored.find(key);
      const Row* present = found == stored.end() ? nullptr : &found->second;
      if (!wanted(read, present, run.spec.experiment, key, source.path())) return;
      Row row = read;
      if (!row.origin) row.origin = run.spec.origin;
      row.artefacts = source.artefacts(run.id, key);
      impl_.add(target, row, true);
      changed = true;
    });
    // What was claimed of fewer rows says nothing of all.
    if (changed && !is_new) impl_.set_claims(target, Json::array());
  }

  void join(std::int64_t target, const Run& run) {
    Query query = impl_.database.query("SELECT shard, created_at FROM runs WHERE id = ?", target);
    if (!query.next()) return;
    impl_.database.run("UPDATE runs SET shard = ?, created_at = ? WHERE id = ?",
                       joined_shards(query.text(0), run.spec.shard),
                       std::min(query.number(1), run.created_at), target);
  }

  bool wanted(const Row& row, const Row* present, const std::string& experiment,
              const std::string& key, const std::string& where) {
    if (present == nullptr) {
      ++report_.num_rows;
      return true;
    }
    if (row.failed() || (!present->failed() && same_outcome(row, *present))) {
      ++report_.num_duplicates;
      return false;
    }
    if (!present->failed()) {
      report_.contradictions.push_back({experiment, key, where});
      if (prefer_ != Prefer::last) return false;
    }
    ++report_.num_replaced;
    return true;
  }

  Store& store_;
  Store::Impl& impl_;
  Prefer prefer_;
  std::function<void(double)> progress_;
  MergeReport report_;
  std::map<Identity, std::vector<std::int64_t>> runs_;
};

MergeReport Store::merge(const std::vector<std::string>& paths, Prefer prefer,
                         const std::function<void(double)>& progress) {
  struct Undo : std::exception {};
  MergeReport report;
  try {
    impl_->write([&] {
      Merge merge(*this, *impl_, prefer, progress);
      for (std::size_t i = 0; i < paths.size(); ++i) merge.copy_file(paths[i], i, paths.size());
      report = merge.take_report();
      if (prefer == Prefer::neither && !report.contradictions.empty()) throw Undo();
    });
  } catch (const Undo&) {
    report.num_runs = report.num_rows = report.num_replaced = 0;
  }
  return report;
}

}  // namespace tessera::results
