// What the parser of text complains of, reworded for the user.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text_blocks.hpp"

namespace banyan::io {

/// LayerParameter, V1LayerParameter.
bool is_layer(const google::protobuf::Descriptor& type);

struct Complaint {
  std::size_t offset;
  std::string text;  // `file:line:column: complaint`
};

/// What is read in the place of what is wrong.
struct StandIn {
  TextSpan place;
  std::string text;      ///< "" if there is none
  bool guessed = false;  ///< nothing tells which value is meant
  bool stray = false;    ///< it belongs nowhere, and nothing is read in its place
};

/// `text`, `root` (the message that it describes), `origin` (its file) and `added` (what the file does not
/// have of the text, which does not count in columns) outlive it.
class Complaints : public google::protobuf::io::ErrorCollector {
 public:
  Complaints(std::string_view text, const google::protobuf::Descriptor& root, const std::string& origin,
             const std::vector<TextSpan>& added)
      : text_(text), root_(root), origin_(origin), added_(added) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override;
  /// Of unknown fields.
  void AddWarning(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override;
  /// The first, at which the parser ends; nothing if there is none.
  const std::optional<Complaint>& error() const { return error_; }
  /// The first `most` of them; of very many in a large text some are only counted. A field that a layer, or
  /// what is outside of layers, has several times is complained of once. Of a type that is not here all is
  /// said once, then its fields are listed by layers.
  std::vector<Complaint> warnings(std::size_t most = std::string::npos);
  /// Layers, by name and current type, of which the warnings say that their type is not here.
  const std::set<std::pair<std::string, std::string>>& told_layers() const { return told_layers_; }
  /// Layers, by name and current type, with other unknown fields; of these, those with one in a message that
  /// transforms data.
  const std::set<std::pair<std::string, std::string>>& unknown_in_layers() const {
    return unknown_in_layers_;
  }
  const std::set<std::pair<std::string, std::string>>& unknown_transforms() const {
    return unknown_transforms_;
  }
  /// Of fields that are given again where they can be given once, in what is read.
  std::vector<Complaint> given_again();
  /// Of unknown fields in a part of the text the first one that a message around its own one has.
  struct Misplaced {
    Complaint complaint;  ///< at the field
    std::string closing;  ///< what closes the messages that it is not in
  };
  std::optional<Misplaced> first_misplaced(const TextSpan& within);
  /// For the error.
  const StandIn& stand_in() const { return stand_in_; }
  /// Name and current type of the layer with the error; "" of neither if it is not in a layer.
  std::pair<std::string, std::string> layer_of_error() const { return layer_of_error_; }

 private:
  Complaint reworded(int line, int column, const std::string& message);
  std::string with_place(const std::string& words) const;
  std::string in_words(const std::string& message);
  std::string the_end() const;
  std::string stray(const std::string& message, const std::string& words);
  TextSpan decimals_after_comma() const;
  TextSpan stray_word(const std::string& message) const;
  const google::protobuf::FieldDescriptor* field_of(const TextValue& value) const;
  std::string not_ascii();
  std::string type_of_new_format(const std::string& message) const;
  std::string unknown_field(const std::string& type_name, const std::string& field);
  std::string missing_type(const std::string& field);
  std::string about_v1_type(const std::string& type) const;
  std::string foreign_field(const std::string& type) const;
  void keep_unknown(const TextBlock& layer);
  std::size_t most_placed() const;
  TextBlock layer_around() const;
  std::string type_around() const;
  std::string wrong_value(const std::string& message);
  std::string unknown_value(const std::string& value, const std::string& field);

  std::string_view text_;
  const google::protobuf::Descriptor& root_;
  const std::string& origin_;
  const std::vector<TextSpan>& added_;
  TextPosition at_;
  struct Raw {
    int line, column;
    std::string message;
  };
  std::optional<Complaint> error_;
  std::vector<Raw> raw_warnings_;  // to find their words reads the text again
  StandIn stand_in_;
  std::pair<std::string, std::string> layer_of_error_;
  std::optional<std::size_t> braces_of_;  // the latest complaint is of this layer's braces: where it begins
  std::string missing_type_;              // with which the latest complaint is explained; "" otherwise
  std::set<std::pair<std::string, std::string>> told_layers_, unknown_in_layers_, unknown_transforms_;
};

}  // namespace banyan::io
