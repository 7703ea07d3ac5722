// Text files of nets and solvers (.prototxt). Every problem is a bad_input `file:line:column: what was
// expected and found`, lines and columns counted from 1, a tab being one column; within a layer its name and
// type come first. For an unknown name, the nearest known one is suggested. Nothing is rewritten here: files
// of earlier formats go through io/upgrade.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/banyan.pb.h"

namespace banyan::io {

/// What becomes of a field that no message of ours knows: an error, or a warning each.
enum class UnknownFields : std::uint8_t { refuse, ignore };

/// A file's contents: at most what the functions below take.
std::string read_text_file(const std::string& path);

caffe::NetParameter read_net_text(const std::string& path, UnknownFields unknown = UnknownFields::refuse);
caffe::SolverParameter read_solver_text(const std::string& path,
                                        UnknownFields unknown = UnknownFields::refuse);

/// The same from memory; `origin` takes the place of the file name in messages.
caffe::NetParameter parse_net_text(std::string_view text, const std::string& origin,
                                   UnknownFields unknown = UnknownFields::refuse);
caffe::SolverParameter parse_solver_text(std::string_view text, const std::string& origin,
                                         UnknownFields unknown = UnknownFields::refuse);
/// The same for any message. An empty text gives a message with nothing set.
void parse_text(std::string_view text, const std::string& origin, google::protobuf::Message& message,
                UnknownFields unknown = UnknownFields::refuse);

struct TextProblems {
  std::vector<std::string> texts;           ///< in the order of the text
  std::vector<std::string> unknown_fields;  ///< those of them that UnknownFields::ignore passes over
  bool whole = true;                        ///< false: the reading ended at one of them
  bool lost = false;                        ///< something was passed over of which it is not known what it is
  /// Layers, by name and current type, of whose type an unknown field made them say that it is not here.
  std::set<std::pair<std::string, std::string>> told_layers;
  /// Layers, by name and current type, with unknown fields of their types; of these, those with one inside
  /// of a message that transforms data.
  std::set<std::pair<std::string, std::string>> unknown_in_layers, unknown_transforms;
  /// Layers, by name and current type, with a value that had to be guessed: what they make is not known.
  std::set<std::pair<std::string, std::string>> guessed_layers;
  bool guessed_elsewhere = false;  ///< such a value is outside of layers
};
/// Everything wrong with the text, not the first thing only; `message` gets what can be read of it (of a
/// field given again the last value, of such a block both). Unknown fields, and up to a brace or the end of
/// its line what belongs nowhere, are passed over, unknown values and those of the wrong kind replaced by the
/// ones that were probably meant; at any other problem, and at too many of these, the reading ends.
TextProblems find_text_problems(std::string_view text, const std::string& origin,
                                google::protobuf::Message& message);

/// Line, from 1, on which a `layer` or `layers` of that name begins: the one of that type with `occurrence`
/// others of the same name and type before it, else the first of that name; 0: there is none.
std::size_t line_of_layer(std::string_view text, const std::string& name, const std::string& type,
                          int occurrence = 0);

/// Of each layer in the text's order: is it a `layers`, of the V1 format?
std::vector<bool> old_layers_in(std::string_view text);

/// The message as text that the functions above (and Caffe, as far as it knows the fields) can read.
std::string to_text(const google::protobuf::Message& message);

}  // namespace banyan::io
