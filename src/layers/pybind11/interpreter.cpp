#include "layers/pybind11/interpreter.hpp"

#include <google/protobuf/descriptor.pb.h>
#include <pybind11/embed.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/image_codec.hpp"
#include "banyan/layers/layer.hpp"
#include "base/signal_thread.hpp"
#include "layers/pybind11/caffe_module.hpp"
#include "proto/banyan.pb.h"

namespace py = pybind11;

namespace banyan {
namespace {

/// str(object), whatever that does and holds. Needs the lock.
std::string in_words(py::handle object) {
  const auto text = py::reinterpret_steal<py::object>(PyObject_Str(object.ptr()));
  const auto bytes = py::reinterpret_steal<py::object>(
      text ? PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    return "(what its __str__ says cannot be shown)";
  }
  return PyBytes_AsString(bytes.ptr());
}

/// The module of this name, from before a module of the user's can change where modules are looked for.
py::handle traceback() {
  static const py::handle module = py::module_::import("traceback").release();
  return module;
}

void expect_started(const PyStatus& status) {
  if (PyStatus_Exception(status) != 0)
    bad_input("Python cannot start: ", status.err_msg != nullptr ? status.err_msg : "no reason is known",
              std::getenv("PYTHONHOME") != nullptr ? "; PYTHONHOME is set, which is seldom right" : "");
}

/// What Python does when it ends; it is never ended, because threads may still be in it. They stay there: the
/// lock is kept, so that they do not use what the end of the program takes away.
void run_exit_functions() {
  [[maybe_unused]] static const py::gil_scoped_acquire& kept = *new py::gil_scoped_acquire;
  try {
    // First those of concurrent.futures, whose processes would be waited for otherwise.
    const py::object threads =
        py::module_::import("sys").attr("modules").attr("get")("threading", py::none());
    const py::list of_threads = py::getattr(threads, "_threading_atexits", py::list());
    for (std::size_t k = of_threads.size(); k-- > 0;) of_threads[k]();
    py::module_::import("atexit").attr("_run_exitfuncs")();
    const py::dict running = py::module_::import("sys").attr("_current_frames")();
    // What they compute without the lock, such as products of matrices, should be done.
    if (running.size() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } catch (py::error_already_set& raised) {
    raised.discard_as_unraisable("at the end of the program");
  }
}

/// Pixels H x W x 3, RGB, of an image file.
py::array_t<std::uint8_t> decoded(const py::bytes& file) {
  const std::string_view bytes = file;
  data::Image image;
  try {
    data::decode_image(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                       data::ColorMode::bgr, image);
  } catch (const Error& error) {
    throw py::value_error(error.message());
  }
  py::array_t<std::uint8_t> pixels({image.height, image.width, image.channels});
  std::uint8_t* const to = pixels.mutable_data();
  for (std::size_t i = 0; i < image.pixels.size(); ++i) to[i] = image.pixels[i / 3 * 3 + 2 - i % 3];
  return pixels;
}

/// A module that is not made from a file; `given`: names that it finds there.
py::object make_module(const char* name, std::string_view source, const py::dict& given) {
  const py::object made = py::module_::import("types").attr("ModuleType")(name);
  const py::dict names = made.attr("__dict__");
  made.attr("__spec__") = py::module_::import("importlib.machinery").attr("ModuleSpec")(name, py::none());
  names.attr("update")(given);
  const py::object code =
      py::module_::import("builtins").attr("compile")(std::string(source), cat(name, " (of Banyan)"), "exec");
  py::module_::import("builtins").attr("exec")(code, names);
  py::module_::import("sys").attr("modules")[name] = made;
  return made;
}

/// The user's modules find this in `import caffe`, whatever else has the name.
void install_caffe_module() {
  google::protobuf::FileDescriptorProto described;
  caffe::NetParameter::descriptor()->file()->CopyTo(&described);
  py::dict given;
  given["described_messages"] = py::bytes(described.SerializeAsString());
  const py::object messages = make_module("caffe.proto.caffe_pb2", kCaffeProto, given);
  given = py::dict();
  given["caffe_pb2"] = messages;
  const py::object proto = make_module("caffe.proto", "", given);
  given = py::dict();
  given["caffe_pb2"] = messages;
  given["decode_image"] = py::cpp_function(&decoded);
  const py::object images = make_module("caffe.io", kCaffeIo, given);
  given = py::dict();
  given["layer_types"] = registered_layer_types();
  given["proto"] = proto;
  given["io"] = images;
  const py::object made = make_module("caffe", kCaffeModule, given);
  given = py::dict();
  given["__getattr__"] = made.attr("__getattr__");
  for (const char* name :
       {"classifier", "coord_map", "detector", "draw", "net_spec"})  // may be imported only
    made.attr(name) = make_module(cat("caffe.", name).c_str(), "", given);
  for (const char* name : {"pycaffe", "_caffe"}) {
    made.attr(name) = made;
    py::module_::import("sys").attr("modules")[cat("caffe.", name).c_str()] = made;
  }
}

/// Starts the interpreter once, and leaves it to whoever takes the lock.
void start_python() {
  const SignalsAllowed in_what_it_starts;
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;  // signals are the program's
  config.buffered_stdio = 0;           // what is printed is seen at once, in a pipe too
  config.parse_argv = 0;
  PyStatus status = PyStatus_Ok();
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr && *environment != '\0')
    status = PyConfig_SetBytesString(&config, &config.executable, cat(environment, "/bin/python3").c_str());
  if (PyStatus_Exception(status) == 0) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  expect_started(status);
  // pybind11 keeps the state of the thread that takes the lock first, and of another than this one it is
  // deleted.
  { const py::gil_scoped_acquire first; }
  py::module_::import("sys").attr("path").attr("append")("");  // the working folder, after PYTHONPATH
  try {
    install_caffe_module();
    // pybind11 looks for NumPy's functions when the first array comes. NumPy 2 imports modules then, which
    // lets other threads have the lock, and one that meets an array would wait for this one with it.
    py::array_t<float>(0);
  } catch (py::error_already_set& raised) {
    const std::string why = text_of(raised);
    PyEval_SaveThread();
    bad_input("layers in Python need NumPy (python3-numpy), and this Python has none that works: ", why);
  }
  // multiprocessing ends its processes with SIGTERM, which they would take for the program's, and waits for
  // them.
  py::module_::import("os").attr("register_at_fork")(
      py::arg("after_in_child") = py::cpp_function([] { ::signal(SIGTERM, SIG_DFL); }));
  traceback();
  std::atexit(run_exit_functions);
  PyEval_SaveThread();
}

}  // namespace

std::string text_of(py::error_already_set& raised) {
  constexpr std::size_t kFrames = 5;
  const std::string type = in_words(raised.type().attr("__name__"));
  std::string text = type;
  if (const std::string what = in_words(raised.value()); !what.empty()) text += cat(": ", what);
  std::vector<std::string> places;
  if (raised.trace())
    for (const py::handle frame : traceback().attr("extract_tb")(raised.trace())) {
      const std::string file = in_words(frame.attr("filename"));
      if (file.starts_with("<frozen ")) continue;  // the machinery of import
      places.push_back(cat("in ", in_words(frame.attr("name")), " (", file, ", line ",
                           in_words(frame.attr("lineno")), ")"));
    }
  if (places.size() > kFrames) places.erase(places.begin(), places.end() - kFrames);
  for (const std::string& place : places) text += ", " + place;
  if (type == "SyntaxError" || type == "TabError" || type == "IndentationError")
    text += "; code for Python 2 must be converted (2to3)";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void ensure_python() {
  static std::once_flag started;
  static std::string why_not;
  std::call_once(started, [] {
    try {
      start_python();
    } catch (const Error& error) {
      why_not = error.message();
    }
  });
  if (!why_not.empty()) bad_input(why_not);
}

}  // namespace banyan
