#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/json_fwd.h"

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
  std::string name, kind;  ///< kind: "plan", "timeline", "picture"
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
