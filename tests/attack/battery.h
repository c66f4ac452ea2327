#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "mutate.h"
#include "program.h"
#include "sanitised.h"

/// Runs the cases of a battery, which is a Lua script that the program runs:
///
///   tessera BATTERY.lua SEED FIRST COUNT FOLDER
///
/// Many cases share a process. It prints "@case NUMBER WHAT FILE" before each, "@fail NUMBER WHAT
/// WHY" after one that is a defect, and at its end "@tally WHAT VALUES REFUSED" and "@done". So a
/// crash and a hang are those of the last case named.
namespace tessera::test {

/// Cases to run: TESSERA_ATTACK_COUNT, or what a test suite has time for.
inline long attack_count(long usual) {
  const char* text = std::getenv("TESSERA_ATTACK_COUNT");
  if (text != nullptr) return std::strtol(text, nullptr, 10);
  return kSanitised ? usual / 10 : usual;
}

/// Values and refusals by kind of case.
using Tally = std::map<std::string, std::pair<long, long>>;

class Battery : public FolderTest {
 protected:
  /// Runs all cases in processes of `batch` cases each; every defect is a failure of the test.
  Tally run_cases(const std::string& script, long count, long batch) {
    std::printf("%s: %ld cases, TESSERA_TEST_SEED=%llu\n", script.c_str(), count,
                static_cast<unsigned long long>(test_seed()));
    std::fflush(stdout);
    Tally tally;
    long first = 0, failures = 0;
    while (first < count && failures < kMostFailures) {
      first = run_batch(script, first, std::min(batch, count - first), tally, failures);
    }
    EXPECT_LT(failures, kMostFailures) << "the rest was not run";
    std::printf("%-24s %8s %8s\n", "what", "value", "refused");
    for (const auto& [what, counts] : tally)
      std::printf("%-24s %8ld %8ld\n", what.c_str(), counts.first, counts.second);
    std::printf("%ld cases, %ld defects\n", first, failures);
    return tally;
  }

 private:
  static constexpr long kMostFailures = 50;

  static void limit_memory() {
    if (kSanitised) return;  // its shadow alone is longer
    const rlimit limit{4ull << 30, 4ull << 30};
    setrlimit(RLIMIT_AS, &limit);
  }

  // Where files of failed cases stay: TESSERA_ATTACK_KEEP, or nowhere.
  static std::string keep(const std::string& file, const std::string& name) {
    const char* folder = std::getenv("TESSERA_ATTACK_KEEP");
    std::error_code error;
    if (folder == nullptr || !std::filesystem::is_regular_file(file, error)) return "";
    std::filesystem::create_directories(folder);
    const std::string kept = std::string(folder) + "/" + name;
    std::filesystem::copy_file(file, kept, std::filesystem::copy_options::overwrite_existing,
                               error);
    return "; kept as " + kept;
  }

  /// Returns the case to go on with.
  long run_batch(const std::string& script, long first, long count, Tally& tally, long& failures) {
    const std::string work = path("work");
    std::filesystem::remove_all(work);
    std::filesystem::create_directories(work);
    ProcessSetup setup;
    setup.directory = work;
    setup.environment = {{"TESSERA_PATH", work},
                         {"TESSERA_MODELS_MODULE", TESSERA_FAKE_MODELS},
                         {"TESSERA_TORCH_MODULE", TESSERA_FAKE_MODELS},
                         {"TESSERA_ATTACK_LIMIT_S", kSanitised ? "60" : "10"}};
    setup.in_child = limit_memory;
    setup.timeout_s = 1e9;
    setup.silence_s = kSanitised ? 120 : 20;
    const Process p = run_program(
        {std::string(TESSERA_SOURCE_DIR) + "/tests/attack/" + script, std::to_string(test_seed()),
         std::to_string(first), std::to_string(count), work},
        setup);
    long number = first - 1;
    std::string what = "before its first case", file, word;
    bool done = false;
    std::istringstream lines(p.out);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      words >> word;
      if (word == "@case") {
        words >> number >> what >> file;
      } else if (word == "@fail") {
        ++failures;
        long failed = 0;
        words >> failed >> word;
        ADD_FAILURE() << line.substr(0, 2000)
                      << keep(work + "/failed-" + std::to_string(failed) + "-" + word,
                              std::to_string(failed) + "-" + word);
      } else if (word == "@tally") {
        long values = 0, refused = 0;
        words >> word >> values >> refused;
        tally[word].first += values;
        tally[word].second += refused;
      } else if (word == "@done") {
        done = true;
      }
    }
    if (done) {
      EXPECT_EQ(p.status, 0) << p.err;
      return first + count;
    }
    ++failures;
    ADD_FAILURE() << script << ", case " << number << ", " << what << ": the program "
                  << (p.status == 128 + SIGKILL ? "hung" : "ended") << " with status " << p.status
                  << keep(file, std::to_string(number) + "-" + what) << "\n"
                  << p.err.substr(p.err.size() - std::min<std::size_t>(p.err.size(), 4000));
    return number + 1;
  }
};

}  // namespace tessera::test
