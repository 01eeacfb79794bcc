//! Inputs to begin from: valid encodings, so that fuzzing starts behind the first checks and not before them.

use wire::{
    media::awstape,
    xrd::{ANSWER_HEADER_BYTES, REQUEST_HEADER_BYTES, encode_fattr_list},
};

/// Seeds of a target that are made here; files lie in `fuzz/seeds`.
pub(crate) fn made(target: &str) -> Vec<Vec<u8>> {
    match target {
        "attributes" => attributes(),
        "awstape" => images(),
        "backup" => vec![backup()],
        "bundle" => vec![bundle()],
        "cell" => cells(),
        "disk_column" => vec![disk_column()],
        "index" => vec![index(&[1]), index(&[9, 7, 9])],
        "label" => labels(),
        "ranges" => RANGES.iter().map(|text| [&10_000_u64.to_le_bytes(), text.as_bytes()].concat()).collect(),
        "request" => requests(),
        "response" => responses(),
        "ztn" => vec![wire::auth::token::ztn::encode("a.b.c"), wire::auth::token::ztn::encode("")],
        other => texts(other).iter().map(|text| text.as_bytes().to_vec()).collect(),
    }
}

/// Records of objects (`spec/object.md` §9).
fn index(objects: &[u64]) -> Vec<u8> {
    let record = |object: &u64| {
        let words = [*object, 3, 1000, 1_700_000_000, 1_700_000_001, 77, 0x0910_01de];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([0; 4]).collect();
        let sum = base::Crc32c::of(&record);
        record.extend(sum.0.to_le_bytes());
        record
    };
    objects.iter().flat_map(record).collect()
}

/// A column of two lists, of which one value is missing (`ntuple::column::disk`), without its checksum.
fn disk_column() -> Vec<u8> {
    let mut out = b"bpcolumn".to_vec();
    out.extend(1_u32.to_le_bytes());
    out.extend([2, 3, 0, 0]);
    out.extend([3_u64, 3].map(u64::to_le_bytes).as_flattened());
    out.extend([0_u32, 0, 1].map(u32::to_le_bytes).as_flattened());
    out.push(b'f');
    out.extend([1_i32, -2, 3].map(i32::to_le_bytes).as_flattened());
    out.extend([1, 0, 1]);
    out.extend([0_u32, 2, 3].map(u32::to_le_bytes).as_flattened());
    out
}

/// A backup with one table.
fn backup() -> Vec<u8> {
    use wire::backup::{Begin, End, Frame, Rows, Table};
    let begin = Begin {
        facility: "f".into(),
        name: "test".into(),
        release: "1".into(),
        schema: [("sqlite".to_owned(), 4)].into(),
        ..Begin::default()
    };
    let table = Table { table: "t".into(), columns: vec!["a".into()] };
    let rows = Rows { plain_bytes: 9, packed: b"any bytes".to_vec() };
    let mut out = Vec::new();
    for frame in [Frame::Begin(begin), Frame::Table(table), Frame::Rows(rows), Frame::End(End::default())] {
        frame.put(&mut out);
    }
    out
}

/// Two small files as one on tape.
fn bundle() -> Vec<u8> {
    use wire::media::bundle::{END, INDEX_NAME, Member, encode_index, header, padding};
    let (mut out, mut members) = (Vec::new(), Vec::new());
    let put = |out: &mut Vec<u8>, name: &str, data: &[u8]| {
        let size = data.len() as u64;
        out.extend(header(name, size, 7));
        let offset = out.len() as u64;
        out.extend_from_slice(data);
        out.resize(out.len() + padding(size), 0);
        offset
    };
    for (number, name) in [(1, "a/b".to_owned()), (2, "long/".repeat(30))] {
        let (data, file) = (vec![b'x'; 600 * number], base::FileId(number as u64));
        let offset = put(&mut out, &name, &data);
        let (size, checksums) = (data.len() as u64, base::Checksums::of(&data));
        members.push(Member { file, offset, size, checksums, path: name });
    }
    put(&mut out, INDEX_NAME, &encode_index(&members));
    out.extend(END);
    out
}

/// Cells of a small coded file: of data and of parity, of a full stripe and of the last.
fn cells() -> Vec<Vec<u8>> {
    use disk::object::erasure::Encoder;
    use wire::media::coded::{Coded, Shape};
    let coded = Coded { file: "7".parse().expect("7 is a number"), content: 3, bytes: 9000 };
    let shape = Shape::new(2, 1, 4096, coded).expect("the shape is legal");
    let mut cells = Vec::new();
    let mut sink = |_: u8, cell: &[u8]| {
        cells.push(cell.to_vec());
        Ok(())
    };
    let mut encoder = Encoder::new(shape);
    encoder.push(&[5; 9000], &mut sink).expect("cells are taken");
    encoder.finish(&mut sink).expect("the size is right");
    cells
}

const CAPS: [&str; 2] = [
    "f.ZGlzay0xLmV4YW1wbGU.7.3.2.0-9.9-091e01de-e3069283.YWxpY2UuYg.1000.00112233445566778899aabbccddeeff",
    "w.eA.1.2.3.0-18446744073709551615.-..4.5",
];

const AUDITS: [&str; 2] = [
    r#"{"at":5,"door":"root","address":"192.0.2.1","user":"ann","action":"rename","what":"/a","to":"/b"}"#,
    r#"{"at":5,"door":"http","user":"ann","deed":"read","what":"/a","refused":"permission","why":"user ann may not"}"#,
];

const CONDITIONS: [&str; 4] =
    ["*", "\"1f-b690b436dc-091e01dee3069283\"", "W/\"a\", \"b\"", "Sun, 06 Nov 1994 08:49:37 GMT"];

const FOREIGN: [&str; 5] = [
    r#"{"iss":"https://a","sub":"s","aud":["a","ANY"],"exp":9,"nbf":1.5,"iat":1,"jti":"1","wlcg.ver":"1.0","scope":"storage.read:/ compute.read","wlcg.groups":["/vo"]}"#,
    r#"{"iss":"https://a","sub":"s","aud":"ANY","exp":9,"ver":"scitoken:2.0","scope":"read:/a write:/b"}"#,
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2EiLCJzdWIiOiJzIiwiZXhwIjo5fQ.c2ln",
    r#"{"keys":[{"kty":"RSA","kid":"k","use":"sig","alg":"RS256","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#,
    r#"{"issuer":"https://a","jwks_uri":"https://a/jwk"}"#,
];

const RANGES: [&str; 5] = ["bytes=0-9", "bytes=-5", "bytes=9-", "bytes=0-0,5-9, 20-,-1", "bytes=5-2"];

const PROPFINDS: [&str; 4] = [
    r#"<?xml version="1.0"?><D:propfind xmlns:D="DAV:"><D:prop><D:getcontentlength/><x:y xmlns:x="u"/></D:prop></D:propfind>"#,
    r#"<propfind xmlns="DAV:"><allprop/><include><a/></include></propfind>"#,
    r#"<propfind xmlns="DAV:"><propname/></propfind>"#,
    r#"<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><a>b</a></D:prop></D:set><D:remove><D:prop><c/></D:prop></D:remove></D:propertyupdate>"#,
];

const PLACES: [&str; 8] =
    ["http://host.example:81/a/b?c", "https://[::1]:8094/a%20b", "/a/b", "0", "1", "infinity", "T", "F"];

const CONTROLS: [&str; 7] = [
    r#"{"spec":{"name":"j","queue":"default","command":["/bin/true"],"inputs":[],"outputs":[]}}"#,
    r#"{"paths":["/a"],"owner":"x"}"#,
    r#"{"path":"/a/b","parents":true,"mode":493}"#,
    r#"{"from":"/a","to":"/b"}"#,
    r#"{"vid":"BP0001","state":"suspect"}"#,
    r#"{"ids":[1,2],"active_only":true}"#,
    r#"{"path":"/a","set":{"k":"dg=="},"remove":["l"]}"#,
];

const COPIES: [&str; 3] = [
    "oss.asize=1234567&tpc.dlgon=0&tpc.key=0a1b2c&tpc.lfn=/data/run 1&tpc.spr=root&tpc.src=ann@disk1:1095&tpc.stage=copy&tpc.str=4&tpc.tpr=root",
    "tpc.key=0a1b2c&tpc.dst=disk2&tpc.stage=placement&tpc.ttl=60",
    "tpc.key=0a1b2c&tpc.org=u.1@h&tpc.cks=adler32",
];

/// Whom a mount acts for.
const ACTS_FOR: [&str; 3] = [
    r#"{"user":"ann","groups":["higgs","prod"]}"#,
    r#"{"user":"1000","groups":["1000"],"is_superuser":true}"#,
    r#"{"user":"a b","groups":[]}"#,
];

const TRACES: [&str; 2] = [
    "; MaxProcs: 8\n 1 5 0 20 4 1.5 9 4 100 -1 1 8 3 1 1 -1 -1 -1\n",
    "2 10 1 30 -1 -1 9 2 100 -1 1 7 3 1 2 -1 -1 -1\n1 0 0 -1 1 1 9 1 1 -1 0 8 3 1 1 -1 -1 -1\n",
];

const EXPRESSIONS: [&str; 4] =
    ["x > 3 && n == 2 || !b", "sqrt(x*x + 2.5e3) - -n % 7", "min(x, max(n, 1)) < abs(x)", "b ? x : n"];

fn texts(target: &str) -> &'static [&'static str] {
    match target {
        "acts_for" => &ACTS_FOR,
        "cap" => &CAPS,
        "cgroup" => &[
            "31 25 0:27 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n0::/system.slice/bpd.service/daemon\n",
            "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n4:memory:/jobs\n3:cpu,cpuacct:/\n",
        ],
        "condition" | "tag" => &CONDITIONS,
        "join" => &[r#"{"head":"https://h:1","facility":"f","authority":"00","secret":"s"}"#, "bpjoin1.e30"],
        "key" => &[
            r#"{"version":1,"serial":1,"generations":[{"number":1,"made":0,"key":"0707070707070707070707070707070707070707070707070707070707070707"}]}"#,
            "07070707070707070707070707070707",
        ],
        "control" => &CONTROLS,
        "framing" => &[
            "GET /a HTTP/1.1\r\nHost: h\r\n\r\nPUT /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\nGET /#d HTTP/1.1\r\n\r\n",
        ],
        "date" => &["Sun, 06 Nov 1994 08:49:37 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"],
        "digest" => &[
            "adler32=091e01de,crc32c=e3069283",
            "md5=JfnnlDI7RTiF9RgfGySV7Q==, sha-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "md5=:JfnnlDI7RTiF9RgfGySV7Q==:",
            "adler32;q=0.5, md5;q=1, *;q=0",
        ],
        "range_query" => &["bp.range punch 0 4096", "bp.range copy 0 10 20 1", "bp.range data 7", "12"],
        "expect" => &["bp.expect size=9 crc32c=e3069283", "bp.expect size=0", "text"],
        "expr" => &EXPRESSIONS,
        "identity" => {
            &[r#"{"version":1,"facility":"f-1","partition":"disk1"}"#, "version = 1\nfacility = \"f-1\"\n"]
        }
        "mount_name" => &["plain", "\u{f700}", "\u{f7ff}x", "\u{fc}"],
        "name" => &["7", "7.json", "18446744073709551615", "07"],
        "object" => &[
            r#"{"version":1,"facility":"f-1","object":7,"file":3,"path":"/data/a b","size":9,"checksums":{"adler32":"091e01de","crc32c":"e3069283"},"written":1700000000000}"#,
        ],
        "path" => &["/a%20b/%C3%BC", "//a%2fb", "/50%25/%3F%23", "/"],
        "place" => &PLACES,
        "audit" => &AUDITS,
        "foreign" => &FOREIGN,
        "propfind" => &PROPFINDS,
        "run" => &["12.1", "notes.txt", "0.0", "../x"],
        "slurm" => &["7|PENDING|bp-1-4.1\n8|COMPLETED|bp-1-5.1\n", "12;cluster\n", "12|24\n"],
        "trace" => &TRACES,
        "stat" => &["42 (a) b) (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0"],
        "token" => &[
            r#"{"iss":"f","sub":"alice","aud":"f","jti":"01","iat":1,"nbf":1,"exp":9,"scope":"storage.read:/ storage.modify:/d"}"#,
            "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJmIn0.c2ln",
            "Bearer a.b.c",
            "storage.create:/x storage.stage:/",
        ],
        "tpc" => &COPIES,
        _ => &[],
    }
}

fn attributes() -> Vec<Vec<u8>> {
    let pairs = [("U.colour".to_owned(), b"green".to_vec()), ("U.x".to_owned(), Vec::new())];
    let space = b"oss.cgroup=main&oss.space=100&oss.free=50&oss.maxf=50&oss.used=50&oss.quota=-1".to_vec();
    vec![encode_fattr_list(&pairs, true), encode_fattr_list(&pairs, false), space]
}

fn images() -> Vec<Vec<u8>> {
    let mut image = Vec::new();
    let first = awstape::encode_block(&[7; 80], 0, &mut image);
    let mark = awstape::encode_mark(first, &mut image);
    awstape::encode_block(&[9; 300], mark, &mut image);
    vec![image]
}

fn labels() -> Vec<Vec<u8>> {
    let texts = [
        format!("VOL1BP0001 {0:13}{0:13}BACKPLANE     {0:26}003", ""),
        "HDR1ABCDEF0          BP0001000123450001000263250263250000000BACKPLANE 0.1       ".to_owned(),
        format!("HDR2F0000000000 {0:18}  {0:14}00{0:28}", ""),
        "UHL1000001234500002621440000262144LAB     TAPE01    VIRTUAL AWSTAPE 0000        ".to_owned(),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// A request with parameters and a body.
fn request(code: u16, parameters: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; REQUEST_HEADER_BYTES];
    frame[1] = 7;
    frame[2..4].copy_from_slice(&code.to_be_bytes());
    frame[4..4 + parameters.len()].copy_from_slice(parameters);
    frame[20..24].copy_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

fn requests() -> Vec<Vec<u8>> {
    let vector: Vec<u8> = (0..3_u64)
        .flat_map(|n| [&[0, 0, 0, 1, 0, 0, 0, 9][..], &(n * 4096).to_be_bytes()].concat())
        .collect();
    let pages = [&0xe306_9283_u32.to_be_bytes()[..], b"123456789"].concat();
    let pairs = [("U.a".to_owned(), b"1".to_vec())];
    let attributes = [b"/file\0".to_vec(), encode_fattr_list(&pairs, true)].concat();
    let bodies: [&[u8]; 9] = [
        b"",
        b"/a/file?oss.asize=9&tpc.key=1",
        b"/a/file /b/file",
        b"/one\n/two",
        b"version tpc",
        b"xrd.cc=de&xrd.appname=xrdcp",
        &vector,
        &pages,
        &attributes,
    ];
    let mut all = Vec::new();
    for code in 3000..=3032 {
        for body in bodies {
            all.push(request(code, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0], body));
        }
    }
    // Set attributes, with their count and options; move, with the length of the first name.
    all.push(request(3020, &[0, 0, 0, 0, 3, 1, 0], &attributes));
    all.push(request(3009, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], b"/a/file /b/file"));
    all
}

/// An answer with a body.
fn response(status: u16, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ANSWER_HEADER_BYTES];
    frame[2..4].copy_from_slice(&status.to_be_bytes());
    frame[4..8].copy_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

fn responses() -> Vec<Vec<u8>> {
    let bodies: [&[u8]; 10] = [
        b"",
        b"\0\0\x0b\xc3no such file\0",
        b"\0\0\0\x0aback soon",
        b"\0\0\x04\x46host.example?cap=1",
        b"\0\0\x05\x20\0\0\0\x01",
        b"1 1234567 48 1700000000\0",
        b".\n0 0 0 0\nfile\n1 9 16 1\ndir\n2 0 19 1\0",
        b"Sw[::127.0.0.1]:1094 Mr[::1]:1095",
        b"\0\0\0\0\0\x07\x16\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\x10\0",
        b"\0\0\0\x05adler32 091e01de\0",
    ];
    let statuses = [0_u16, 4000, 4001, 4002, 4003, 4004, 4005, 4006, 4007];
    statuses.iter().flat_map(|status| bodies.iter().map(|body| response(*status, body))).collect()
}
