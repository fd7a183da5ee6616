// A kernel bundle somebody was given: its bundle.json, or (the first byte chooses) the note of its
// files that mvm makes when it installs one. What is taken lies in the bundle, wherever the words
// point: beside it is a file that must not be found.

#include <cstdint>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/image/kernel.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

using namespace mvm;

// The files, once; without the syncs that a real one takes.
struct Place {
  sys::TempDir scratch;
  std::string bundle = scratch.path() + "/bundle";
  Place() {
    sys::make_directories(bundle + "/modules");
    write(scratch.path() + "/beside", as_bytes("beside"));
    for (const char* file : {"/vmlinux", "/modules/a.ko", "/modules/b.ko"})
      write(bundle + file, as_bytes("content"));
  }
  static void write(const std::string& path, ByteView content) {
    sys::write_all(sys::open_file(path, O_WRONLY | O_CREAT | O_TRUNC).get(), content);
  }
};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Place place;
  if (size == 0) return 0;
  const ByteView text = std::as_bytes(std::span(data, size)).subspan(1);
  const bool note = data[0] == 'n';
  constexpr std::string_view kPlain =
      R"({"name": "k", "image": "vmlinux", "modules": ["modules/a.ko"]})";
  Place::write(place.bundle + "/bundle.json", note ? as_bytes(kPlain) : text);
  const std::string note_file = place.bundle + "/.files.json";
  ::unlink(note_file.c_str());
  if (note) Place::write(note_file, text);
  try {
    const image::KernelBundle kernel = image::load_bundle(place.bundle);
    for (const std::string& module : kernel.modules)
      MVM_ASSERT(module.starts_with(kernel.directory + "/modules/") &&
                 module.find("..") == std::string::npos);
    MVM_ASSERT(kernel.image.starts_with(kernel.directory + "/"));
    MVM_ASSERT(!kernel.name.empty() && kernel.name.find('/') == std::string::npos);
  } catch (const Error& error) {
    for (const char c : error.message()) MVM_ASSERT(c != '\n' && c != '\x1b');
  }
  return 0;
}
