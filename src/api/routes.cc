#include "routes.h"

#include <algorithm>
#include <array>

#include "mvm/base/text.h"
#include "mvm/http/url.h"

namespace mvm::api {

static bool is_parameter(std::string_view segment) { return segment.starts_with('{'); }

std::string target_of(const Route& route, const Parameters& parameters, const Query& query) {
  std::string target;
  size_t next = 0;
  for (const std::string_view segment : split(route.pattern.substr(1), '/'))
    target.append("/").append(is_parameter(segment) ? http::percent_encode(parameters.at(next++))
                                                    : std::string(segment));
  char separator = '?';
  for (const auto& [name, value] : query) {
    target.append(1, separator).append(name).append("=").append(http::percent_encode(value));
    separator = '&';
  }
  return target;
}

std::optional<Parameters> match(std::string_view pattern, const std::vector<std::string>& path) {
  const auto segments = split(pattern.substr(1), '/');
  if (segments.size() != path.size()) return std::nullopt;
  Parameters parameters;
  for (size_t at = 0; at < path.size(); ++at) {
    if (is_parameter(segments[at])) {
      parameters.push_back(path[at]);
    } else if (segments[at] != path[at]) {
      return std::nullopt;
    }
  }
  return parameters;
}

// ---- what a call may hold
// -------------------------------------------------------------------------

// The one query parameter that a route knows, a flag; any other is refused.
static bool flag(const Call& call, std::string_view name) {
  bool value = false;
  for (const auto& [key, text] : call.query) {
    if (key != name)
      throw Error(Kind::Invalid, "unknown query parameter \"" + printable(key) + "\"; this takes " +
                                     std::string(name));
    if (text != "true" && text != "false" && text != "1" && text != "0")
      throw Error(Kind::Invalid, "query parameter \"" + key + "\" must be true or false");
    value = text == "true" || text == "1";
  }
  return value;
}

static void no_query(const Call& call) {
  if (!call.query.empty())
    throw Error(Kind::Invalid,
                "unknown query parameter \"" + printable(call.query.front().first) + "\"");
}

static void no_body(const Call& call) {
  if (!call.body.empty()) throw Error(Kind::Invalid, "this request takes no body");
}

// A body that may be left out.
template <typename T>
static T optional_body(const Call& call, T (*decode)(std::string_view)) {
  return call.body.empty() ? T{} : decode(call.body);
}

// ---- handlers
// -------------------------------------------------------------------------------------

static void get_version(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.version()));
}

static void list_sandboxes(Service& service, const Call& call, Reply& reply) {
  no_body(call);
  reply.json(200, encode(service.sandboxes(flag(call, "all"))));
}

static void create_sandbox(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(201, encode(service.create(decode_spec(call.body))));
}

static void get_sandbox(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.sandbox(call.parameters[0])));
}

static void stop_sandbox(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(200, encode(service.stop(call.parameters[0], optional_body(call, decode_stop))));
}

static void start_sandbox(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(200, encode(service.start(call.parameters[0], optional_body(call, decode_start))));
}

static void wait_for_sandbox(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  const WaitRequest request = optional_body(call, decode_wait);
  if (request.timeout_ms > kMaxWaitMs)
    throw Error(Kind::Invalid, "wait.timeout_ms: must be at most " + std::to_string(kMaxWaitMs));
  reply.json(200, encode(service.wait(call.parameters[0], request)));
}

static void remove_sandbox(Service& service, const Call& call, Reply& reply) {
  no_body(call);
  service.remove(call.parameters[0], flag(call, "force"));
  reply.empty();
}

static void publish_port(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(201, encode(service.publish(call.parameters[0], decode_port(call.body))));
}

static void unpublish_port(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  const auto port = proto::parse_port_place(call.parameters[1]);
  if (!port)
    throw Error(Kind::Invalid, "must be a port of the host such as 127.0.0.1:8080, not '" +
                                   printable(call.parameters[1], 60) + "'");
  service.unpublish(call.parameters[0], *port);
  reply.empty();
}

static void get_logs(Service& service, const Call& call, Reply& reply) {
  constexpr std::string_view kType = "text/plain; charset=utf-8";
  no_body(call);
  service.logs(call.parameters[0], flag(call, "follow"),
               [&](std::string_view piece) { return reply.stream(kType, piece); });
  reply.stream(kType, "");  // an empty log is an answer too
}

static void list_images(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.images()));
}

static void get_image(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.image(call.parameters[0])));
}

// The status is sent before the outcome is known, so a failure after the first progress is the last
// line of the stream. One before it is an answer like any other.
template <typename Work>
static void stream_image(const Call& call, Reply& reply, Work work) {
  constexpr std::string_view kType = "application/x-ndjson";
  no_query(call);
  bool begun = false;
  const auto line = [&](const std::string& json) {
    begun = true;
    return reply.stream(kType, json + "\n");
  };
  try {
    const Image image = work(
        [&](const ImportProgress& progress) { return line(encode_import_progress(progress)); });
    line(encode_import_image(image));
  } catch (const Error& error) {
    if (!begun) throw;
    const auto* hinted = dynamic_cast<const ApiError*>(&error);
    line(encode_error(error.kind(), error.message(), hinted != nullptr ? hinted->hint() : ""));
  }
}

static void import_image(Service& service, const Call& call, Reply& reply) {
  stream_image(call, reply, [&](const ProgressSink& progress) {
    return service.import_image(decode_import(call.body), progress);
  });
}

static void pull_image(Service& service, const Call& call, Reply& reply) {
  stream_image(call, reply, [&](const ProgressSink& progress) {
    return service.pull_image(decode_pull(call.body), progress);
  });
}

static void capture_image(Service& service, const Call& call, Reply& reply) {
  stream_image(call, reply, [&](const ProgressSink& progress) {
    return service.capture_image(decode_capture(call.body), progress);
  });
}

static void adopt_image(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(200, encode(service.adopt_image(decode_adopt(call.body))));
}

static void tag_image(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(200, encode(service.tag_image(call.parameters[0], decode_tag(call.body))));
}

static void verify_image(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.verify_image(call.parameters[0])));
}

static void prune_images(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(200, encode(service.prune_images(optional_body(call, decode_prune))));
}

static void remove_image(Service& service, const Call& call, Reply& reply) {
  no_body(call);
  service.remove_image(call.parameters[0], flag(call, "force"));
  reply.empty();
}

static void list_kernels(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.kernels()));
}

static void import_kernel(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(201, encode(service.import_kernel(decode_kernel_import(call.body))));
}

static void remove_kernel(Service& service, const Call& call, Reply& reply) {
  no_body(call);
  service.remove_kernel(call.parameters[0], flag(call, "force"));
  reply.empty();
}

static void get_ai_usage(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  reply.json(200, encode(service.ai_usage()));
}

static void change_ai_budget(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  reply.json(200,
             encode(service.change_ai_budget(call.parameters[0], decode_ai_budget(call.body))));
}

static void get_metrics(Service& service, const Call& call, Reply& reply) {
  no_body(call);
  const bool otlp = flag(call, "otlp");
  const std::string text = service.metrics(otlp);
  reply.stream(otlp ? "application/json" : "text/plain; version=0.0.4; charset=utf-8", text);
}

static void stop_daemon(Service& service, const Call& call, Reply& reply) {
  no_query(call);
  no_body(call);
  service.stop_daemon();
  reply.empty();
}

std::span<const Endpoint> endpoints() {
  static constexpr std::array kEndpoints{
      Endpoint{kGetVersion, get_version},
      Endpoint{kListSandboxes, list_sandboxes},
      Endpoint{kCreateSandbox, create_sandbox},
      Endpoint{kGetSandbox, get_sandbox},
      Endpoint{kStopSandbox, stop_sandbox},
      Endpoint{kStartSandbox, start_sandbox},
      Endpoint{kWaitForSandbox, wait_for_sandbox},
      Endpoint{kRemoveSandbox, remove_sandbox},
      Endpoint{kPublishPort, publish_port},
      Endpoint{kUnpublishPort, unpublish_port},
      Endpoint{kGetLogs, get_logs},
      Endpoint{kListImages, list_images},
      Endpoint{kImportImage, import_image},
      Endpoint{kGetImage, get_image},
      Endpoint{kRemoveImage, remove_image},
      Endpoint{kPullImage, pull_image},
      Endpoint{kCaptureImage, capture_image},
      Endpoint{kAdoptImage, adopt_image},
      Endpoint{kPruneImages, prune_images},
      Endpoint{kTagImage, tag_image},
      Endpoint{kVerifyImage, verify_image},
      Endpoint{kListKernels, list_kernels},
      Endpoint{kImportKernel, import_kernel},
      Endpoint{kRemoveKernel, remove_kernel},
      Endpoint{kGetAiUsage, get_ai_usage},
      Endpoint{kChangeAiBudget, change_ai_budget},
      Endpoint{kGetMetrics, get_metrics},
      Endpoint{kStopDaemon, stop_daemon},
  };
  return kEndpoints;
}

}
