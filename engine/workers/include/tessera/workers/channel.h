#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tessera::workers {

/// The pool's side of what a worker process is told when it starts: its argument.
struct WorkerArgument {
  int parent = 0;  ///< process id; a worker of another parent has been orphaned
  double memory_bytes = 0;
  std::string text() const;
  /// @throws Error{invalid_argument} for what no pool wrote.
  static WorkerArgument parse(const std::string& text);
};

/// The worker's end of the line to its pool: the socket that the pool left at descriptor 3.
class Channel {
 public:
  /// Makes this process a worker: it dies with its parent, keeps to its memory limit and leaves no
  /// core files. @throws Error{unsupported} when no pool started the process.
  explicit Channel(const WorkerArgument& argument);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  struct Message {
    std::uint64_t id = 0;  ///< 0: the setup
    std::string text;
  };
  /// The next message; absent when the pool is gone. Blocks.
  std::optional<Message> receive();
  /// Says that items may come. What was printed so far belongs to none of them.
  void ready();
  /// The answer to an item. With `last`, the process ends now and the pool starts another.
  void answer(std::uint64_t id, const std::string& text, bool last);

 private:
  void mark_log(std::uint64_t id);
  void send(std::uint64_t id, const std::string& text, std::uint32_t flags);
  int socket_ = -1, log_ = -1;
};

}  // namespace tessera::workers
