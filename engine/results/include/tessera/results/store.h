#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/json_fwd.h"
#include "tessera/core/provenance.h"
#include "tessera/core/record.h"
#include "tessera/core/units.h"

/// Results of experiments in one SQLite file: crash-safe, open to the tool `sqlite3`, and written
/// by several processes at once if need be.
///
/// An experiment has points (cells of its grid). A run is one sweep over them, which several
/// invocations may add to. A row is the stored outcome of one point in one run.
namespace tessera::results {

/// Where the numbers of a run or of one row come from.
struct Origin {
  std::string script_hash;        ///< SHA-256 of the script, in hexadecimal
  std::string git_commit;         ///< checked out where the script lies; empty outside of git
  std::int64_t seed = 0;          ///< |seed| <= 2^53
  Json machine = Json::object();  ///< see machine_facts()
  Json build = Json::object();    ///< what the program was built from
};

struct RunSpec {
  std::string experiment;  ///< any name, UTF-8, not empty
  std::string script_path, script_text;
  Origin origin;
  bool quick = false;
  std::string shard;                  ///< "1/4", or empty
  Json declaration = Json::object();  ///< name, doc, keys, columns, plots, ...
};

struct Run {
  std::int64_t id = 0;
  RunSpec spec;                 ///< `runs()` leaves `script_text` out
  double created_at = 0;        ///< seconds since 1970
  double changed_at = 0;        ///< when the last row was finished; seconds since 1970
  std::int64_t num_points = 0;  ///< rows stored, failed ones included
  std::int64_t num_failed = 0;
  Json claims = Json::array();
};

struct Artefact {
  std::string name, kind;  ///< kind: "plan", "timeline", "served", "picture"
  Json value;
};

struct Row {
  Json point = Json::object();
  std::string status = "done";
  Json columns = Json::object();
  std::optional<std::int64_t> order;  ///< place among the rows; default: behind the others
  std::optional<std::string> error;   ///< given: the point failed
  std::string traceback, log;
  std::string provenance;             ///< "measured", "fitted", "published", "modelled" or empty
  std::optional<double> error_ratio;  ///< held-out relative error of what made the numbers
  std::optional<Origin> origin;       ///< absent: as its run says
  double started_at = 0;              ///< seconds since 1970
  double duration_s = 0;
  Json inputs = Json::array();  ///< [{path, sha256}]
  std::vector<Artefact> artefacts;

  bool failed() const { return error.has_value(); }
};

struct StoredKey {
  std::string key, status;
  bool failed = false;
};

/// Which rows of a run to read, and how much of each.
struct RowChoice {
  bool failed = false;                ///< only those that failed
  std::optional<std::int64_t> limit;  ///< the first so many
  bool meta = true;                   ///< also log, traceback, inputs, times and origin
};

struct OpenOptions {
  bool read_only = false;  ///< neither makes nor changes any file
  bool create = true;      ///< makes the file where there is none
  /// Waits for the disk after every addition, so that it survives power loss; else only the end of
  /// the process, in any way.
  bool durable = false;
  /// How long SQLite may work without giving a row; what takes longer is a file made for that.
  double silence_limit_s = 60;
  /// Asked now and then while SQLite works; true ends the call with Error{interrupted}.
  std::function<bool()> interrupted = {};
};

enum class Prefer { neither, first, last };

struct Contradiction {
  std::string experiment, key, where;  ///< `where`: the file that disagrees with what is stored
};

struct MergeReport {
  std::int64_t num_runs = 0;        ///< new in this store
  std::int64_t num_rows = 0;        ///< new in this store
  std::int64_t num_replaced = 0;    ///< failed rows that another file has done, or Prefer::last
  std::int64_t num_duplicates = 0;  ///< the same outcome in several files, kept once
  std::vector<Contradiction> contradictions;  ///< not empty and Prefer::neither: nothing was merged
};

}  // namespace tessera::results

namespace tessera {

/// As an option: which of two rows to keep.
template <>
inline constexpr auto kEnumNames<results::Prefer> = enum_names<results::Prefer>(
    {{results::Prefer::first, "first"}, {results::Prefer::last, "last"}});

template <>
struct Fields<results::Origin> {
  using Origin = results::Origin;
  static constexpr auto list = std::tuple{
      field<&Origin::script_hash>({.name = "script_hash", .doc = "SHA-256 of the script"}),
      field<&Origin::git_commit>({.name = "git_commit", .doc = "Commit the script lies in"}),
      field<&Origin::seed>(
          {.name = "seed", .doc = "Seed", .min = -kMaxExactInteger, .max = kMaxExactInteger}),
      field<&Origin::machine>({.name = "machine", .doc = "As store.machine() gives it"}),
      field<&Origin::build>({.name = "build", .doc = "What the program was built from"})};
};

template <>
struct Fields<results::RunSpec> {
  using Spec = results::RunSpec;
  static constexpr auto list = std::tuple{
      field<&Spec::experiment>(
          {.name = "experiment", .doc = "Its name", .as_option = AsOption::required}),
      field<&Spec::script_path>({.name = "script_path", .doc = "File of the script"}),
      field<&Spec::quick>(
          {.name = "quick", .doc = "Of a reduced grid", .as_option = AsOption::defaulted}),
      field<&Spec::shard>({.name = "shard", .doc = "Part of the grid, such as \"1/4\""}),
      field<&Spec::declaration>(
          {.name = "declaration",
           .doc = "What the experiment says of itself: name, doc, keys, columns, plots"})};
};

template <>
struct Fields<results::Run> {
  using Run = results::Run;
  static constexpr auto list = std::tuple{
      field<&Run::id>({.name = "id", .doc = "Number of the run"}),
      field<&Run::created_at>(
          {.name = "created_at", .doc = "When it began, since 1970", .unit = "s"}),
      field<&Run::changed_at>(
          {.name = "changed_at", .doc = "When its last row was finished, since 1970", .unit = "s"}),
      field<&Run::num_points>({.name = "num_points", .doc = "Rows stored, failed ones included"}),
      field<&Run::num_failed>({.name = "num_failed", .doc = "Rows that failed"}),
      field<&Run::claims>({.name = "claims", .doc = "What was checked of it"})};
};

template <>
struct Fields<results::Artefact> {
  using Artefact = results::Artefact;
  static constexpr auto list = std::tuple{
      field<&Artefact::name>({.name = "name", .doc = "Its name"}),
      field<&Artefact::kind>({.name = "kind", .doc = "plan, timeline, served or picture"}),
      field<&Artefact::value>({.name = "value", .doc = "The thing itself"})};
};

template <>
struct Fields<results::Row> {
  using Row = results::Row;
  static constexpr double kMaxTime_s = 1e12;
  static constexpr auto list = std::tuple{
      field<&Row::point>(
          {.name = "point", .doc = "Its keys and values", .as_option = AsOption::required}),
      field<&Row::status>(
          {.name = "status", .doc = "Outcome in a word", .as_option = AsOption::defaulted}),
      field<&Row::columns>({.name = "columns", .doc = "What the script returned"}),
      field<&Row::order>({.name = "order",
                          .doc = "Place among the rows; default: behind the others",
                          .min = 0,
                          .max = kMaxExactInteger}),
      field<&Row::provenance>(
          {.name = "provenance", .doc = "Of its numbers", .choices = names_of<Provenance>}),
      field<&Row::error_ratio>({.name = "error_ratio",
                                .doc = "Held-out relative error of what made the numbers",
                                .min = 0}),
      field<&Row::started_at>({.name = "started_at",
                               .doc = "When it began",
                               .unit = "s",
                               .min = 0,
                               .max = kMaxTime_s,
                               .as_option = AsOption::defaulted}),
      field<&Row::duration_s>({.name = "duration_s",
                               .doc = "How long it took",
                               .unit = "s",
                               .min = 0,
                               .max = kMaxTime_s,
                               .as_option = AsOption::defaulted}),
      field<&Row::inputs>({.name = "inputs", .doc = "Files it read, each { path =, sha256 = }"})};
};

template <>
struct Fields<results::OpenOptions> {
  using Options = results::OpenOptions;
  static constexpr auto list = std::tuple{
      field<&Options::read_only>({.name = "read_only",
                                  .doc = "Neither makes nor changes any file",
                                  .as_option = AsOption::defaulted}),
      field<&Options::create>({.name = "create",
                               .doc = "Makes the file where there is none",
                               .as_option = AsOption::defaulted}),
      field<&Options::durable>(
          {.name = "durable",
           .doc = "Waits for the disk after every addition, which then survives power loss too",
           .as_option = AsOption::defaulted})};
};

template <>
struct Fields<results::Contradiction> {
  using Contradiction = results::Contradiction;
  static constexpr auto list = std::tuple{
      field<&Contradiction::experiment>({.name = "experiment", .doc = "Whose rows differ"}),
      field<&Contradiction::key>({.name = "key", .doc = "Name of their point"}),
      field<&Contradiction::where>(
          {.name = "where", .doc = "File that disagrees with what is stored"})};
};

template <>
struct Fields<results::MergeReport> {
  using Report = results::MergeReport;
  static constexpr auto list = std::tuple{
      field<&Report::num_runs>({.name = "num_runs", .doc = "New in this store"}),
      field<&Report::num_rows>({.name = "num_rows", .doc = "New in this store"}),
      field<&Report::num_replaced>(
          {.name = "num_replaced",
           .doc =
               "Failed rows that another file has done, or rows that a later file has otherwise"}),
      field<&Report::num_duplicates>(
          {.name = "num_duplicates", .doc = "Rows that several files have alike"}),
      field<&Report::contradictions>(
          {.name = "contradictions", .doc = "Rows that the files disagree about"})};
};

}  // namespace tessera

namespace tessera::results {

/// JSON in one spelling: sorted keys, integral numbers without a fraction. An empty list is {}, as
/// Lua cannot tell the two apart.
std::string canonical_json(const Json& value);

/// The name of a point within its run.
/// @throws Error{invalid_argument} unless `point` is an object.
std::string point_key(const Json& point);

/// One open results file. Not for use from two threads at once, nor across fork().
///
/// Every method throws Error{io} that says what SQLite could not do, to which file, and what helps,
/// and for what is stored there and cannot be: the file, the run, the field and what belongs there.
/// What a call has added when it returns survives the end of the process in any way. The end of the
/// machine (power) may cost the last rows, unless opened `durable`, but no consistency.
class Store {
 public:
  /// @throws Error{not_found} where there is no file (and none may be made), or nothing in it yet
  /// (to read), Error{unsupported} for a file of a newer version, Error{io} for what is no results
  /// file or cannot be opened, or has a file beside it that SQLite would trust and that is not
  /// ours.
  explicit Store(const std::string& path, const OpenOptions& options = {});
  ~Store();
  Store(Store&&) noexcept;

  const std::string& path() const;
  bool is_open() const;
  void close();

  std::int64_t start_run(const RunSpec& spec);
  /// Oldest first; all, or those of one experiment.
  std::vector<Run> runs(const std::optional<std::string>& experiment = {});
  /// @throws Error{not_found} for an unknown id, naming those there are.
  Run run(std::int64_t id);
  /// Of a run; cheaper than the whole of it.
  Origin origin(std::int64_t run);
  std::string script_text(std::int64_t run);  ///< "" for an unknown id

  /// One transaction. A stored row that failed is replaced, and keeps its place.
  /// @throws Error{invalid_argument} where a row that did not fail is stored already, unless
  /// `replace`; for reserved column names; for an unknown run Error{not_found}.
  void add(std::int64_t run, const Row& row, bool replace = false);
  /// The same for many rows, all or none of which are stored.
  void add_all(std::int64_t run, const std::vector<Row>& rows, bool replace = false);

  std::vector<StoredKey> keys(std::int64_t run);
  /// Calls `visit` with each row in order, without artefacts.
  void each_row(std::int64_t run, const std::function<void(const Row&)>& visit,
                const RowChoice& choice = {});
  std::vector<Artefact> artefacts(std::int64_t run, const std::string& key);
  /// Replaces the claims of a run. Each is an object, see check_claim; `passed`, where it is a
  /// boolean, is also a column of the table `claims`.
  void set_claims(std::int64_t run, const Json& claims);

  /// Copies the runs of other files in, all or nothing. Runs with the same experiment, script hash,
  /// seed and `quick` become one; the k-th such run of one file is the k-th of every other.
  /// `progress` is called after every row with the share of the work that is done, and may throw.
  MergeReport merge(const std::vector<std::string>& paths, Prefer prefer = Prefer::neither,
                    const std::function<void(double share)>& progress = {});

  struct Impl;  ///< for the module's own files

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::results
