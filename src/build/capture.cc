#include "mvm/build/capture.h"

#include <algorithm>

#include "mvm/agent/exec.h"
#include "mvm/base/text.h"

#include "deadline.h"
#include "tail.h"

namespace mvm::build {
namespace {

// tar has something to say every few milliseconds, unless the disk it reads from is stuck.
constexpr agent::Milliseconds kSilence{300'000};
constexpr agent::Milliseconds kMargin{5'000};
constexpr size_t kMaxSaid = 2000;

void check_key(const std::string& key) {
  if (!key.starts_with(api::kFlakeKey) || key.size() > 256)
    throw Error(Kind::Invalid, "capture.key: must begin with " + std::string(api::kFlakeKey));
}

std::vector<image::PathAttributes> attributes_of(const api::CaptureRequest& request) {
  if (request.attributes.size() > kMaxAttributes)
    throw Error(Kind::Invalid,
                "capture.attributes: are more than " + std::to_string(kMaxAttributes));
  std::vector<image::PathAttributes> out;
  for (const auto& wanted : request.attributes) {
    if (wanted.mode > 07777)
      throw Error(Kind::Invalid,
                  "capture.attributes: the mode of " + printable(wanted.path) + " is none");
    out.push_back({wanted.path, static_cast<uint16_t>(wanted.mode), {wanted.uid, wanted.gid}});
  }
  return out;
}

}

image::Imported capture(store::Images& images, agent::Connection& connection,
                        const api::CaptureRequest& request, const image::Progress& progress) {
  check_key(request.key);
  const store::ImageName name = store::parse_image_name(request.name);
  image::ImportOptions options;
  if (!request.kernel.empty())
    if (const auto why = name_complaint(request.kernel))
      throw Error(Kind::Invalid, "capture.kernel: " + *why);
  if (request.health)
    if (const auto why = request.health->complaint())
      throw Error(Kind::Invalid, "capture.health: " + *why);
  options.config = {request.entrypoint, {}, request.env,    request.user,
                    request.workdir,    "", request.labels, request.health,
                    request.kernel};
  image::TarStream stream;
  stream.shown = request.source;
  stream.kind = "flake";
  stream.key = request.key;
  stream.attributes = attributes_of(request);

  proto::ExecRequest exec;
  exec.argv = request.argv;
  exec.cwd = "/";
  agent::Limit limit;
  if (request.timeout_ms != 0)
    limit = std::chrono::milliseconds(std::min(request.timeout_ms, api::kMaxLimitMs));
  const Deadline deadline(limit);
  exec.timeout = deadline.left();
  agent::Command command(connection, exec);
  Tail said(kMaxSaid);
  stream.next = [&]() -> ByteView {
    while (true) {
      const agent::Milliseconds left = deadline.left();
      // It is ended inside; this is for one that does not see to that.
      const auto piece = command.next(limit ? std::min(left + kMargin, kSilence) : kSilence);
      if (!piece) break;
      if (piece->stream == agent::Stream::Out) return piece->data;
      said.add(as_text(piece->data));
    }
    const proto::ExecResult& result = command.result();
    if (result.timed_out) deadline.over();
    if (result.exit_code != 0 || result.signal != 0)
      throw Error(Kind::Unavailable,
                  "the command that writes the image failed: " + printable(said.text(), kMaxSaid));
    return {};
  };
  try {
    return image::import_tar(images, stream, name, options, progress);
  } catch (...) {
    connection.close();  // ends the command
    throw;
  }
}

store::Image adopt(store::Images images, const api::AdoptRequest& request) {
  check_key(request.key);
  auto image = images.adopt(request.key, store::parse_image_name(request.name));
  if (!image) throw Error(Kind::NotFound, "there is no image of this work");
  return std::move(*image);
}

}
