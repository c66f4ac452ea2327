#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// The one way in which the product writes files and folders: under a scratch name beside the
/// target, to the disk, and only then under the name itself. Readers see the old content or the
/// new, never half; without `commit` nothing is left behind, and what a killed process leaves is
/// called NAME.partial.XXXXXX.
namespace tessera {

/// A file that is written as a stream, or by a library that knows names only.
class OutputFile {
 public:
  /// A link stays one: what it leads to is replaced. The mode is that of the file before, or that
  /// of new files.
  /// @param mode_of_new of a file that was not there, before the umask
  /// @throws Error{not_found} without a folder for it; Error{io}, as all of its functions, naming
  /// `path` and the system's reason
  explicit OutputFile(const std::string& path, unsigned mode_of_new = 0666);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::uint64_t offset, const void* data, std::size_t size);
  void append(std::string_view text) { write(size_, text.data(), text.size()); }

  /// For a library that opens files itself. Whether all of it is there is then for the caller to
  /// check: many libraries do not say when writing failed.
  const std::string& scratch_path();

  /// To the disk, and looks whether all of it is there. Nothing is written afterwards.
  void flush();

  /// Flushes and gives it its name, on the disk too. What goes into a pipe or a device goes there
  /// now.
  void commit();

 private:
  void copy_to_target();

  std::string path_, target_, scratch_;
  unsigned mode_ = 0;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  bool has_special_target_ = false, is_written_by_name_ = false, is_committed_ = false;
};

/// A folder that appears complete or not at all.
class OutputFolder {
 public:
  /// Removes the scratch folders that killed processes left for the same target, and says so on
  /// stderr. One in which a process works is locked, and stays; so does every one where the file
  /// system has no locks.
  /// @throws Error{io}, as all of its functions, naming `path`
  explicit OutputFolder(const std::string& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where to write until `commit`. Files in it are written as above.
  const std::string& scratch_path() const { return scratch_; }

  /// @throws Error{io} with both numbers where the disk has less room
  void require_space(std::uint64_t bytes) const;

  /// @param replaces whether a folder that is there already may go
  void commit(bool replaces);

 private:
  void make_scratch();
  void remove_leftovers() const;

  std::string path_, target_, scratch_;
  int lock_ = -1;
  bool is_committed_ = false;
};

/// Whole, of any length. @throws Error{not_found, io}
void copy_file(const std::string& from, const std::string& to);

}  // namespace tessera
