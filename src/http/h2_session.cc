// The sending half of an HTTP/2 session, and its face. Body bytes wait in their stream until
// nghttp2 asks for them, which it does as the peer's windows allow.

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "mvm/base/error.h"

#include "h2_impl.h"

namespace mvm::http {

static constexpr size_t kPreface = 24;  // RFC 9113 §3.4
static constexpr size_t kWaitingAnswers = 256;
static constexpr uint64_t kResetBurst = 200;
static constexpr uint64_t kResetsASecond = 33;

std::string_view h2_error_name(uint32_t code) noexcept {
  static constexpr std::array<std::string_view, 14> kNames{"no_error",
                                                           "protocol_error",
                                                           "internal_error",
                                                           "flow_control",
                                                           "settings_timeout",
                                                           "stream_closed",
                                                           "frame_size",
                                                           "refused_stream",
                                                           "cancel",
                                                           "compression",
                                                           "connect",
                                                           "enhance_your_calm",
                                                           "inadequate_security",
                                                           "http_1_1_required"};
  return code < kNames.size() ? kNames[code] : std::string_view();
}

// ---- nghttp2's callbacks

static H2Session::Impl& of(void* user) { return *static_cast<H2Session::Impl*>(user); }
static std::string_view text_of(const uint8_t* data, size_t length) {
  return as_text(std::as_bytes(std::span(data, length)));
}

static void set_callbacks(nghttp2_session_callbacks* to) {
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      to, [](nghttp2_session*, const nghttp2_frame*, void* user) {
        of(user).begin_headers();
        return 0;
      });
  nghttp2_session_callbacks_set_on_header_callback(
      to, [](nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_length,
             const uint8_t* value, size_t value_length, uint8_t flags, void* user) {
        of(user).add_header(text_of(name, name_length), text_of(value, value_length),
                            (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0);
        return 0;
      });
  // Otherwise nghttp2 would pass over a malformed field and deliver the rest.
  nghttp2_session_callbacks_set_on_invalid_header_callback(
      to, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t*, size_t, const uint8_t*,
             size_t, uint8_t, void* user) {
        of(user).malformed(frame->hd.stream_id, "a header field is malformed");
        return static_cast<int>(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE);
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      to,
      [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t length, void* user) {
        of(user).add_data(id, std::as_bytes(std::span(data, length)));
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      to, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        of(user).frame_received(*frame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
      to, [](nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
        of(user).invalid_frame(*frame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      to, [](nghttp2_session*, int32_t id, uint32_t error, void* user) {
        of(user).stream_closed(id, error);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_send_callback(
      to, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        H2Session::Impl& impl = of(user);
        if (frame->hd.type == NGHTTP2_RST_STREAM)
          impl.reset_sent(frame->hd.stream_id, frame->rst_stream.error_code);
        if (frame->hd.type != NGHTTP2_GOAWAY || frame->goaway.error_code == NGHTTP2_NO_ERROR)
          return 0;
        if (impl.bad_reason.empty()) {
          impl.bad_error = frame->goaway.error_code;
          // nghttp2's word for resets that come too fast.
          impl.bad_reason = frame->goaway.error_code == NGHTTP2_INTERNAL_ERROR
                                ? "the peer resets too many streams"
                                : "the peer broke the protocol";
        }
        impl.over = true;
        return 0;
      });
}

static nghttp2_option* make_options() {
  nghttp2_option* options = nullptr;
  if (nghttp2_option_new(&options) != 0) throw std::bad_alloc();
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_no_closed_streams(options, 1);
  // Until a server has said how many streams it takes: more could be refused, and have been sent
  // for nothing.
  nghttp2_option_set_peer_max_concurrent_streams(options, 1);
  nghttp2_option_set_max_outbound_ack(options, kWaitingAnswers);
  nghttp2_option_set_stream_reset_rate_limit(options, kResetBurst, kResetsASecond);
  return options;
}

H2Session::Impl::Impl(H2Side which, const H2Limits& bounds)
    : side(which),
      limits(bounds),
      cutter(which == H2Side::Server ? kPreface : 0),
      allowance(bounds.idle_frames) {
  nghttp2_session_callbacks* callbacks = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
  set_callbacks(callbacks);
  nghttp2_option* const options = make_options();
  nghttp2_session* made = nullptr;
  const int failed = which == H2Side::Server
                         ? nghttp2_session_server_new2(&made, callbacks, this, options)
                         : nghttp2_session_client_new2(&made, callbacks, this, options);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);
  if (failed != 0) throw std::bad_alloc();
  session.reset(made);
  const std::array<nghttp2_settings_entry, 5> settings{{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, which == H2Side::Server ? limits.streams : 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits.header_list)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  const int refused =
      nghttp2_submit_settings(made, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) +
      nghttp2_session_set_local_window_size(made, NGHTTP2_FLAG_NONE, 0,
                                            static_cast<int32_t>(limits.connection_window));
  MVM_ASSERT(refused == 0);
}

// ---- heads out

static bool may_be_indexed(std::string_view name) noexcept {
  // What is worth guessing at must not live in a table that answers guesses (RFC 7541 §7.1).
  for (const std::string_view secret :
       {"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"})
    if (name == secret) return false;
  return true;
}

static void add(std::vector<nghttp2_nv>& to, std::string_view name, std::string_view value,
                bool sensitive = false) {
  // nghttp2 copies both, and has no const because it could be told not to.
  const auto bytes = [](std::string_view text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
  };
  to.push_back(
      {bytes(name), bytes(value), name.size(), value.size(),
       static_cast<uint8_t>(may_be_indexed(name) && !sensitive ? NGHTTP2_NV_FLAG_NONE
                                                               : NGHTTP2_NV_FLAG_NO_INDEX)});
}

static void add(std::vector<nghttp2_nv>& to, const Headers& headers) {
  for (const Header& header : headers) {
    const bool lower = std::none_of(header.name.begin(), header.name.end(),
                                    [](char c) { return c >= 'A' && c <= 'Z'; });
    if (!is_token(header.name) || !lower)
      throw Error(Kind::Invalid, "a header name is not a token in lower case");
    if (!is_field_value(header.value))
      throw Error(Kind::Invalid, "the value of header " + header.name + " has control characters");
    for (const std::string_view hop :
         {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
      if (header.name == hop)
        throw Error(Kind::Invalid, "header " + header.name + " is not for HTTP/2");
    add(to, header.name, header.value, header.sensitive);
  }
}

static std::vector<nghttp2_nv> response_fields(const H2Head& head, const std::string& status) {
  std::vector<nghttp2_nv> out;
  add(out, ":status", status);
  add(out, head.headers);
  return out;
}

// ---- bodies out

void H2Session::Impl::note_sent(int32_t id, size_t length) {
  if (!sent.empty() && sent.back().stream == id)
    sent.back().length += length;
  else
    sent.push_back({id, length});
}

ssize_t H2Session::Impl::read_body(int32_t id, std::span<uint8_t> to, uint32_t* flags) {
  H2Stream& stream = streams[id];
  const size_t length = std::min(to.size(), stream.body.size() - stream.offset);
  std::memcpy(to.data(), stream.body.data() + stream.offset, length);
  stream.offset += length;
  if (length != 0) {
    note_sent(id, length);
    credit(kDataCredit);
  }
  if (stream.offset == stream.body.size()) {
    stream.body = {};
    stream.offset = 0;
    if (stream.finished) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!stream.trailers.empty()) {
        std::vector<nghttp2_nv> fields;
        add(fields, stream.trailers);
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session.get(), id, fields.data(), fields.size());
      }
    } else if (length == 0) {
      stream.waiting = true;
      return NGHTTP2_ERR_DEFERRED;
    }
  }
  return static_cast<ssize_t>(length);
}

static nghttp2_data_provider body_provider() {
  nghttp2_data_provider out{};
  out.read_callback = [](nghttp2_session*, int32_t id, uint8_t* to, size_t length, uint32_t* flags,
                         nghttp2_data_source*, void* user) {
    return of(user).read_body(id, std::span(to, length), flags);
  };
  return out;
}

H2Stream* H2Session::Impl::sending(int32_t id) {
  const auto found = streams.find(id);
  if (over || found == streams.end() || found->second.dropped || found->second.finished)
    return nullptr;
  return &found->second;
}

// ---- the face

H2Session::H2Session(H2Side side, const H2Limits& limits)
    : impl_(std::make_unique<Impl>(side, limits)) {}
H2Session::~H2Session() = default;
H2Session::H2Session(H2Session&&) noexcept = default;
H2Session& H2Session::operator=(H2Session&&) noexcept = default;

const H2Head& H2Session::head() const noexcept { return impl_->current.head; }
const Headers& H2Session::trailers() const noexcept { return impl_->current.trailers; }

void H2Session::consumed(int32_t stream, size_t length) {
  // With a stream that has gone this opens the connection's window alone. It fails only for a
  // session that is over.
  nghttp2_session_consume(impl_->session.get(), stream, length);
}

void H2Session::write(std::string& out, size_t limit) {
  while (out.size() < limit) {
    const uint8_t* data = nullptr;
    const ssize_t length = nghttp2_session_mem_send(impl_->session.get(), &data);
    if (length < 0)
      impl_->give_up(NGHTTP2_INTERNAL_ERROR, nghttp2_strerror(static_cast<int>(length)));
    if (length <= 0) return;
    out += text_of(data, static_cast<size_t>(length));
  }
}

bool H2Session::wants_write() const noexcept {
  return nghttp2_session_want_write(impl_->session.get()) != 0;
}

size_t H2Session::queued() const noexcept {
  return nghttp2_session_get_outbound_queue_size(impl_->session.get());
}

bool H2Session::take_sent(H2Sent& sent) {
  if (impl_->sent.empty()) return false;
  sent = impl_->sent.front();
  impl_->sent.pop_front();
  return true;
}

bool H2Session::can_request() const noexcept {
  nghttp2_session* const session = impl_->session.get();
  const uint32_t most =
      nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return impl_->side == H2Side::Client && !impl_->over &&
         nghttp2_session_check_request_allowed(session) != 0 &&
         impl_->streams.size() < std::min(most, impl_->limits.streams);
}

int32_t H2Session::request(const H2Head& head, bool end) {
  if (!is_token(head.method) || !is_field_value(head.authority) ||
      (head.method != "CONNECT" && !is_target(head.path)))
    throw Error(Kind::Invalid, "the request's method, authority or path is malformed");
  std::vector<nghttp2_nv> fields;
  add(fields, ":method", head.method);
  if (head.method != "CONNECT") add(fields, ":scheme", head.scheme);
  add(fields, ":authority", head.authority);
  if (head.method != "CONNECT") add(fields, ":path", head.path, head.path_sensitive);
  add(fields, head.headers);
  if (!can_request()) return 0;
  const nghttp2_data_provider body = body_provider();
  const int32_t id = nghttp2_submit_request(impl_->session.get(), nullptr, fields.data(),
                                            fields.size(), end ? nullptr : &body, nullptr);
  if (id <= 0) return 0;
  H2Stream& stream = impl_->streams[id];
  stream.known = true;
  stream.finished = end;
  return id;
}

bool H2Session::respond(int32_t id, const H2Head& head, bool end) {
  const std::string status = std::to_string(head.status);
  const std::vector<nghttp2_nv> fields = response_fields(head, status);
  MVM_ASSERT(impl_->side == H2Side::Server && head.status >= 200 && head.status <= 599);
  H2Stream* const stream = impl_->sending(id);
  if (stream == nullptr || stream->answered) return false;
  stream->answered = true;
  stream->finished = end;
  const nghttp2_data_provider body = body_provider();
  return nghttp2_submit_response(impl_->session.get(), id, fields.data(), fields.size(),
                                 end ? nullptr : &body) == 0;
}

bool H2Session::interim(int32_t id, const H2Head& head) {
  const std::string status = std::to_string(head.status);
  const std::vector<nghttp2_nv> fields = response_fields(head, status);
  MVM_ASSERT(impl_->side == H2Side::Server && head.status >= 100 && head.status <= 199);
  const H2Stream* const stream = impl_->sending(id);
  if (stream == nullptr || stream->answered) return false;
  return nghttp2_submit_headers(impl_->session.get(), NGHTTP2_FLAG_NONE, id, nullptr, fields.data(),
                                fields.size(), nullptr) == 0;
}

static void resume(H2Session::Impl& impl, int32_t id, H2Stream& stream) {
  if (!stream.waiting) return;
  stream.waiting = false;
  nghttp2_session_resume_data(impl.session.get(), id);
}

bool H2Session::send(int32_t id, ByteView data) {
  H2Stream* const stream = impl_->sending(id);
  if (stream == nullptr) return false;
  if (data.empty()) return true;
  // What has left is cut off now and then: a body that comes as fast as it goes is never all gone.
  if (stream->offset > stream->body.size() / 2) {
    stream->body.erase(0, stream->offset);
    stream->offset = 0;
  }
  stream->body += as_text(data);
  resume(*impl_, id, *stream);
  return true;
}

bool H2Session::finish(int32_t id, const Headers& trailers) {
  std::vector<nghttp2_nv> checked;
  add(checked, trailers);
  H2Stream* const stream = impl_->sending(id);
  if (stream == nullptr) return false;
  stream->finished = true;
  stream->trailers = trailers;
  resume(*impl_, id, *stream);
  return true;
}

bool H2Session::reset(int32_t id, H2Error error) {
  const auto found = impl_->streams.find(id);
  if (impl_->over || found == impl_->streams.end() || found->second.dropped) return false;
  H2Stream& stream = found->second;
  stream.dropped = true;
  // The frame that says so may have to wait; the body does not wait with it.
  if (unsent(id) > 0) impl_->note_sent(id, unsent(id));
  stream.body = {};
  stream.offset = 0;
  return nghttp2_submit_rst_stream(impl_->session.get(), NGHTTP2_FLAG_NONE, id,
                                   static_cast<uint32_t>(error)) == 0;
}

size_t H2Session::unsent(int32_t id) const noexcept {
  const auto found = impl_->streams.find(id);
  return found == impl_->streams.end() ? 0 : found->second.body.size() - found->second.offset;
}

bool H2Session::written(int32_t id) const noexcept {
  return nghttp2_session_get_stream_local_close(impl_->session.get(), id) == 1;
}

void H2Session::ping() { nghttp2_submit_ping(impl_->session.get(), NGHTTP2_FLAG_NONE, nullptr); }

void H2Session::shut_down(H2Error error) {
  nghttp2_session* const session = impl_->session.get();
  if (error != H2Error::NoError) {
    nghttp2_session_terminate_session(session, static_cast<uint32_t>(error));
    impl_->over = true;
    return;
  }
  nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session), NGHTTP2_NO_ERROR, nullptr,
                        0);
}

size_t H2Session::open_streams() const noexcept { return impl_->streams.size(); }

bool H2Session::over() const noexcept {
  nghttp2_session* const session = impl_->session.get();
  return impl_->over ||
         (nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0);
}

}
