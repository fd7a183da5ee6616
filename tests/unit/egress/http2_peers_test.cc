// HTTP/2 as programs speak it that people use: gRPC, nginx, nghttp2, httpx.
#include "http2_rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class Http2Peers : public Http2 {
 protected:
  Program& serve_nginx(const std::string& more) {
    file("small", std::string(1024, 's'));
    const std::string config =
        file("nginx.conf", R"(
daemon off; master_process off; user root root; pid )" +
                               directory() +
                               R"(/nginx.pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path )" +
                               directory() + "/a; proxy_temp_path " + directory() +
                               "/b; fastcgi_temp_path " + directory() + "/c; uwsgi_temp_path " +
                               directory() + "/d; scgi_temp_path " + directory() + R"(/e;
  server {
    listen )" + kPublic + ":443 ssl http2; ssl_certificate " +
                               pem_ + "; ssl_certificate_key " + pem_ + ".key; root " +
                               directory() + ";\n" + more + "\n} }\n");
    return serve({"nginx", "-c", config}, {ip(kPublic), 443});
  }
};

TEST_F(Http2Peers, CarriesGrpcInAllItsShapes) {
  serve({"/usr/bin/python3", "-c", R"(
import grpc, sys, time
from concurrent import futures
def count(n, context):
  for i in range(int(n)): yield b'%d' % i
def fail(r, context): context.abort(grpc.StatusCode.NOT_FOUND, 'nothing of that name')
def about(r, context):
  context.set_trailing_metadata((('x-sum', '7'),))
  return dict(context.invocation_metadata())['x-asked'].encode()
handlers = {
  'Unary': grpc.unary_unary_rpc_method_handler(lambda r, c: r[::-1]),
  'Count': grpc.unary_stream_rpc_method_handler(count),
  'Sum': grpc.stream_unary_rpc_method_handler(lambda r, c: b'%d' % sum(len(x) for x in r)),
  'Chat': grpc.stream_stream_rpc_method_handler(lambda r, c: (x.upper() for x in r)),
  'Fail': grpc.unary_unary_rpc_method_handler(fail),
  'About': grpc.unary_unary_rpc_method_handler(about),
  'Wait': grpc.unary_unary_rpc_method_handler(lambda r, c: time.sleep(60)),
}
class All(grpc.GenericRpcHandler):
  def service(self, d): return handlers.get(d.method.rsplit('/', 1)[1])
s = grpc.server(futures.ThreadPoolExecutor(8)); s.add_generic_rpc_handlers((All(),))
pem = sys.argv[2]
s.add_secure_port(sys.argv[1] + ':443', grpc.ssl_server_credentials([(open(pem + '.key', 'rb').read(), open(pem, 'rb').read())]))
s.start(); s.wait_for_termination()
)",
         kPublic, pem_},
        {ip(kPublic), 443});
  allow_endpoint("POST https://api.example/echo.Echo/*");
  start_proxy();
  const auto exit = guest({"/usr/bin/python3", "-c", R"(
import grpc, sys, queue
c = grpc.secure_channel('api.example:443', grpc.ssl_channel_credentials(open(sys.argv[1], 'rb').read()))
print(c.unary_unary('/echo.Echo/Unary')(b'abc'), len(c.unary_unary('/echo.Echo/Unary')(b'x' * 3000000)))
print(list(c.unary_stream('/echo.Echo/Count')(b'4')))
print(c.stream_unary('/echo.Echo/Sum')(b'x' * 100000 for i in range(20)))
# Each word goes when the answer to the last has come.
words = queue.Queue(); words.put(b'a'); got = []
for r in c.stream_stream('/echo.Echo/Chat')(iter(words.get, None)):
  got.append(r); words.put(b'b' if len(got) == 1 else b'c' if len(got) == 2 else None)
print(got)
r, call = c.unary_unary('/echo.Echo/About').with_call(b'', metadata=(('x-asked', 'so'),))
print(r, call.trailing_metadata()[0])
def error(method, **options):
  try: c.unary_unary(method)(b'', **options)
  except grpc.RpcError as e: print(e.code().name, '|', e.details())
error('/echo.Echo/Fail'); error('/echo.Echo/Missing'); error('/echo.Echo/Wait', timeout=0.5); error('/admin.Admin/Wipe')
print(c.unary_unary('/echo.Echo/Unary')(b'on'))
)",
                           authority_});
  EXPECT_EQ(exit.out,
            "b'cba' 3000000\n[b'0', b'1', b'2', b'3']\nb'2000000'\n[b'A', b'B', b'C']\n"
            "b'so' _Metadatum(key='x-sum', value='7')\n"
            "NOT_FOUND | nothing of that name\nUNIMPLEMENTED | Method not found!\n"
            "DEADLINE_EXCEEDED | Deadline Exceeded\n"
            "PERMISSION_DENIED | Received http2 header with status: 403\nb'no'\n")
      << exit.err;
  EXPECT_THAT(told(), Contains("http deny policy_denied POST api.example 93.184.216.34 443"));
}

TEST_F(Http2Peers, IsLoadedByH2loadInFrontOfNginx) {
  serve_nginx("keepalive_requests 100000;");
  allow_endpoint("GET https://api.example/small");
  start_proxy();
  const auto exit =
      guest({"h2load", "-n", "4000", "-c", "4", "-m", "32", "https://api.example/small"});
  EXPECT_THAT(exit.out, HasSubstr("4000 succeeded, 0 failed, 0 errored, 0 timeout")) << exit.err;
  EXPECT_THAT(exit.out, HasSubstr("4000 2xx, 0 3xx, 0 4xx, 0 5xx"));
  EXPECT_THAT(exit.out, HasSubstr("Application protocol: h2"));
  EXPECT_EQ(events_of(EventKind::Http).size(), 4000U);
}

// nginx ends a connection after so many requests; a client notices no more than without us.
TEST_F(Http2Peers, LetsClientsConnectAgainWhereNginxEndsItsConnections) {
  serve_nginx("keepalive_requests 10;");
  allow_endpoint("GET https://api.example/small");
  start_proxy();
  const auto exit = curl({"https://api.example/small?[1-35]", "-o", "/dev/null", "-w",
                          "%{http_code} %{http_version} %{num_connects}\n"});
  size_t connects = 0;
  for (size_t at = 0; (at = exit.out.find("200 2 1\n", at)) != std::string::npos; ++at) ++connects;
  EXPECT_EQ(connects, 4U) << exit.out << exit.err;
  EXPECT_EQ(std::count(exit.out.begin(), exit.out.end(), '\n'), 35);
  EXPECT_EQ(exit.out.find("000"), std::string::npos);
}

TEST_F(Http2Peers, CarriesUploadsThatNghttpdSendsBack) {
  serve({"nghttpd", "--echo-upload", "-a", kPublic, "-d", directory(), "443", pem_ + ".key", pem_},
        {ip(kPublic), 443});
  allow_endpoint("POST https://api.example/**");
  start_proxy();
  const auto exit = guest(
      {"sh", "-c",
       "cd " + directory() +
           " && head -c 5000000 /dev/urandom > up && for i in 1 2 3; do curl -sS --http2 "
           "--cacert authority.pem --data-binary @up -o down https://api.example/ && cmp up down "
           "|| echo bad; done"});
  EXPECT_EQ(exit.out + exit.err, "");
}

TEST_F(Http2Peers, AnswersHttpx) {
  serve_nginx("");
  allow_endpoint("GET https://api.example/small");
  start_proxy();
  const auto exit = guest({"/usr/bin/python3", "-c", R"(
import httpx, sys
with httpx.Client(http2=True, verify=sys.argv[1]) as c:
  for path in ('small', 'other', 'small'):
    r = c.get('https://api.example/' + path)
    print(r.http_version, r.status_code, len(r.content) if r.is_success else r.json()['error']['reason'])
)",
                           authority_});
  EXPECT_EQ(exit.out, "HTTP/2 200 1024\nHTTP/2 403 policy_denied\nHTTP/2 200 1024\n") << exit.err;
}

}
}
