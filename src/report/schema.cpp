#include "report/schema.hpp"

#include <map>
#include <utility>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::report {
namespace {

enum class Type : std::uint8_t { number, count, text, flag, object };

struct Member {
  std::string name;
  Type type = Type::number;
  std::vector<Member> inner = {};  ///< of objects
  int lists = 0;                   ///< arrays around it
  bool always = false;
};
using Members = std::vector<Member>;

Member always(Member member) {
  member.always = true;
  return member;
}
Member list(Member member, int depth = 1) {
  member.lists = depth;
  return member;
}
Member number(const char* name) { return {name, Type::number}; }
Member count(const char* name) { return {name, Type::count}; }
Member text(const char* name) { return {name, Type::text}; }
Member flag(const char* name) { return {name, Type::flag}; }
Member object(const char* name, Members inner) { return {name, Type::object, std::move(inner)}; }

Members outputs() { return {always(text("name")), always(list(number("values"))), number("weight")}; }

Members start() {
  return {
      always(count("format")),
      always(text("version")),
      always(count("max_iter")),
      text("resumed_from"),
      list(text("weights")),
      list(text("command_line")),
      text("working_directory"),
      count("process"),
      object("host", {text("name"), text("processor"), count("cores"), number("memory")}),
      text("seed"),
      text("precision"),
      count("display"),
      count("average_loss"),
      count("iter_size"),
      object("solver", {text("path"), text("text")}),
      list(object("nets", {text("name"), text("path"), text("text")})),
      list(object("devices", {always(text("name")), text("kind"), text("description"), count("threads"),
                              list(number("cores")), count("batch")})),
      object("tree", {list(number("parents")), flag("direct"), text("text"),
                      list(object("links", {always(count("from")), always(count("to")), text("class"),
                                            number("latency_seconds"), number("bytes_per_second")})),
                      list(text("classes"), 2)}),
      number("samples_per_iteration"),
      list(object("datasets", {text("net"), text("layer"), text("source"), number("records")})),
      list(object("layers", {always(text("name")), text("type"), list(text("inputs")),
                             list(object("outputs", {text("name"), list(number("shape"))})),
                             list(number("blobs"), 2), number("parameters"), number("shared_parameters"),
                             number("multiply_adds"), flag("in_place"), number("output_bytes")})),
      object("memory", {number("parameters"), number("gradients"), number("optimizer"), number("activations"),
                        number("activations_unshared")}),
      object(
          "plan",
          {always(list(object("steps", {always(text("work")), always(count("layer"))}))), count("backward"),
           always(list(object("blocks", {always(text("name")), flag("gradient"), always(number("offset")),
                                         always(number("bytes")), always(list(number("spans"), 2))})))})};
}

Members train() {
  return {always(number("loss")),
          number("epoch"),
          list(object("outputs", outputs())),
          number("rate"),
          number("gradient_norm"),
          number("iterations"),
          number("samples_per_second"),
          number("seconds"),
          list(object("devices", {always(text("name")), object("memory", {number("in_use"), number("peak")}),
                                  number("waiting_for_data"), count("sampled"),
                                  object("milliseconds",
                                         {number("compute"), number("exposed"), number("exposed_sync_bn"),
                                          number("exposed_divisors"), number("exposed_gradients"),
                                          number("exposed_skew"), number("update"), number("data"),
                                          number("other"), number("iteration"), number("hidden")})}))};
}

const std::map<std::string, Members>& kinds() {
  static const std::map<std::string, Members> kinds = {
      {"start", start()},
      {"train", train()},
      {"test",
       {always(count("net")), always(text("name")), always(number("loss")),
        always(list(object("outputs", outputs()))), count("batches"), number("seconds")}},
      {"parameters",
       {always(
           list(object("parameters", {always(text("name")), text("layer"), count("index"), number("count"),
                                      number("norm"), number("gradient_norm"), number("update_ratio")})))}},
      {"layers",
       {always(number("sampled")),
        always(list(object("layers", {always(text("name")), number("forward"), number("backward")})))}},
      {"snapshot", {text("model"), text("state"), number("bytes"), number("seconds")}},
      {"warning", {text("text"), text("advice")}},
      {"end", {always(text("reason")), text("error"), number("seconds")}}};
  return kinds;
}

std::string shown(const Json& value) {
  return banyan::quoted(value.dump(-1, ' ', false, Json::error_handler_t::replace), 40);
}

bool is_of(const Json& value, Type type) {
  switch (type) {
    case Type::number:
      return value.is_number() || value == "nan" || value == "inf" || value == "-inf";
    case Type::count:
      return value.is_number_integer() && value >= 0;
    case Type::text:
      return value.is_string();
    case Type::flag:
      return value.is_boolean();
    default:
      return value.is_object();
  }
}

std::string problem_of(const Json& value, const Member& member, int lists, const std::string& path);

std::string problem_in_members(const Json& object, const Members& members, const std::string& path) {
  for (const Member& member : members) {
    const std::string place = path.empty() ? member.name : path + "." + member.name;
    const auto found = object.find(member.name);
    if (found == object.end()) {
      if (member.always) return banyan::quoted(place) + " is missing";
      continue;
    }
    if (std::string problem = problem_of(*found, member, member.lists, place); !problem.empty())
      return problem;
  }
  return "";
}

std::string problem_of(const Json& value, const Member& member, int lists, const std::string& path) {
  if (lists > 0) {
    if (!value.is_array()) return cat(banyan::quoted(path), ": expected an array, found ", shown(value));
    for (std::size_t i = 0; i < value.size(); ++i)
      if (std::string problem = problem_of(value[i], member, lists - 1, cat(path, "[", i, "]"));
          !problem.empty())
        return problem;
    return "";
  }
  const char* const expected[] = {"a number", "a whole number from 0", "a text", "true or false",
                                  "an object"};
  if (!is_of(value, member.type))
    return cat(banyan::quoted(path), ": expected ", expected[static_cast<int>(member.type)], ", found ",
               shown(value));
  return member.type == Type::object ? problem_in_members(value, member.inner, path) : "";
}

}  // namespace

std::string problem_in(const Json& line) {
  if (!line.is_object()) return "expected an object, found " + shown(line);
  static const Members every = {always(text("kind")), always(count("iteration")), always(number("time"))};
  if (std::string problem = problem_in_members(line, every, ""); !problem.empty()) return problem;
  const auto found = kinds().find(line["kind"].get<std::string>());
  return found == kinds().end() ? "" : problem_in_members(line, found->second, "");
}

}  // namespace banyan::report
