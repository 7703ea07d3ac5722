// What LevelDB itself does not look at in the folder of a database. Internal to the room.
#pragma once

#include <string>

namespace banyan::data {

/// The name of a log whose last record is not whole, or "". LevelDB takes such a log for one that was being
/// written when its writer ended, drops that record without a word, and with it the log.
std::string cut_off_log(const std::string& folder);

/// A temporary folder with links to the files of another, in which LevelDB can write what it always writes: a
/// folder without write access cannot be opened where it is.
class LinkFolder {
 public:
  LinkFolder() = default;
  /// Throws runtime_failure.
  explicit LinkFolder(const std::string& folder);
  ~LinkFolder();
  LinkFolder(const LinkFolder&) = delete;
  LinkFolder& operator=(const LinkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool can_write_in(const std::string& folder);

}  // namespace banyan::data
