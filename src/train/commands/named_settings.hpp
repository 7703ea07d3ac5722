// The settings that a refusal is about.
#pragma once

#include <map>
#include <string>

#include "proto/banyan.pb.h"

namespace banyan {

/// Takes out of a refused layer (LayerParameter, V1LayerParameter) what it was refused for, so that what else
/// is wrong with it shows.
class RefusedSettings {
 public:
  /// Takes the settings that the refusal names out of the layer, or puts a number that it misses in. False if
  /// it names none.
  bool mend(google::protobuf::Message& layer, const std::string& refusal);
  /// Gives numbers that were mended, and that the refusal names again, another value; false if there is none.
  bool mend_again(google::protobuf::Message& layer, const std::string& refusal);
  /// May the refusal of a layer that was mended be due to that? It is not if it names a field of the layer's
  /// settings and none that was mended.
  bool may_follow(const google::protobuf::Message& layer, const std::string& refusal) const;

 private:
  std::map<std::string, int> mended_;  ///< by name of field: how many other values were tried
};

/// Does the refusal name a field that the layer's settings do not have, and none that they have?
bool is_about_missing(const caffe::LayerParameter& layer, const std::string& refusal);

/// Takes the net's own settings, not those of its layers, that the refusal names out of the net. False if it
/// names none that are there.
bool drop_refused(caffe::NetParameter& net, const std::string& refusal);

}  // namespace banyan
