// The layers of a net, one after the other, for `trainer check`.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/train/commands.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

/// What is found in one file and the nets that it names, each complaint once.
class Findings {
 public:
  void problem(const std::string& text) {
    ++told_;
    if (seen_.insert(text).second) problems_.push_back(text);
  }
  /// Something was not checked.
  void note(const std::string& text) {
    leave_open();
    remark(text);
  }
  void leave_open() { complete_ = false; }
  /// Worth knowing, no more.
  void remark(const std::string& text) {
    if (seen_.insert(text).second) notes_.push_back(text);
  }
  /// Runs it; what it throws is a problem.
  bool attempt(const std::string& origin, const std::function<void()>& action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      complain(origin, error.message());
    }
    return false;
  }
  /// A problem of a file, which the complaint may name.
  void complain(const std::string& origin, const std::string& complaint) {
    problem(complaint.rfind(origin, 0) == 0 ? complaint : cat(origin, ": ", complaint));
  }
  /// Is it the first time that this is met in the file, such as a type of layer that is not here?
  bool is_first(const std::string& origin, const std::string& what) {
    return met_.insert({origin, what}).second;
  }
  /// Blobs that come from outside, whose shapes the user can give.
  void add_source(const std::string& blob) { sources_.insert(blob); }
  const std::set<std::string>& sources() const { return sources_; }
  const std::vector<std::string>& problems() const { return problems_; }
  /// How often there was one, with those that were known.
  std::size_t told() const { return told_; }
  const std::vector<std::string>& notes() const { return notes_; }
  bool complete() const { return complete_; }

 private:
  std::set<std::string> seen_, sources_;
  std::set<std::pair<std::string, std::string>> met_;
  std::vector<std::string> problems_, notes_;
  std::size_t told_ = 0;
  bool complete_ = true;
};

struct CheckedLayers {
  bool whole = true;                       ///< nothing is wrong
  bool all_shapes = true;                  ///< every layer was set up with the shapes that it will have
  std::map<std::string, Shape> stand_ins;  ///< of sources that were not opened, by blob
  /// First blobs of layers in Python whose images' sizes are made up here.
  std::map<std::string, Shape> assumed = {};
  /// Blobs of sources that may have other shapes than are taken for them.
  std::set<std::string> guessed = {};
};

/// Where a net comes from.
struct CheckedSource {
  std::string origin;       ///< its file, or a field of its file
  std::string text;         ///< of its file, for line numbers; "": none are given
  caffe::NetParameter net;  ///< upgraded, with the layers of all phases
  /// Layers, by name and type, of which it is known already that their type is not here, or with settings
  /// that could not be read.
  std::set<std::pair<std::string, std::string>> told_layers = {};
  /// Layers, by name and type, with unknown fields: what is missing may be called so. Of those with one in a
  /// transform_param it is not known what they make.
  std::set<std::pair<std::string, std::string>> unknown_fields = {}, unknown_transforms = {};
  bool text_has_problems = false;  ///< or upgrading it has, which may explain layers without a type
};

/// Takes out the settings of detections that need a file which does not exist here, with a note.
void drop_missing_files(caffe::NetParameter& net, const std::string& origin, Findings& findings);

/// Connections and layers of one phase (`net`: filtered). What follows from a problem is not checked instead
/// of complained of.
CheckedLayers check_layers(const caffe::NetParameter& net, const CheckedSource& source,
                           const CheckOptions& options, Findings& findings);

}  // namespace banyan
