// NewFolder: a folder that is written under a temporary name. Internal to the room.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace banyan::data {

class NewFolder {
 public:
  /// Makes `<path>.tmp.<pid>`, and removes such folders that killed processes left behind: each writer holds
  /// a lock on its folder (flock), which shows whether it is still running. Throws bad_input if `path`
  /// exists, unless `overwrite` and each of its files is accepted by `belongs`, if its parent does not exist,
  /// or if this process is writing it already. `kind` is for messages: "an LMDB".
  NewFolder(const std::string& path, bool overwrite, const std::string& kind,
            const std::function<bool(const std::string& file)>& belongs);
  /// Removes the temporary folder unless it was renamed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }
  /// Gives the folder its name. An existing one is removed after that, and stays if it fails.
  void commit();

 private:
  void remove_abandoned(const std::function<bool(const std::string&)>& belongs) const;
  void make_temporary();
  void unlock();

  std::string path_, temporary_, claim_;
  bool overwrite_;
  int lock_ = -1;  ///< the temporary folder, open
};

}  // namespace banyan::data
