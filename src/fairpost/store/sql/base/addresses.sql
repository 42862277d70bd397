-- Decides whether two addresses are the same. The result is the same in every database, regardless of its locale.

-- Normalizes an address. Converts letters of any script to a single case, and the domain to its DNS form (müller.example becomes
-- xn--mller-kva.example). For ASCII addresses, by far the most common, this costs no more than lower().
CREATE OR REPLACE FUNCTION fairpost.normalize_address(address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(address) = length(address) THEN lower(address COLLATE "C") COLLATE "default"
                ELSE fairpost.normalize_letters(address) END
$$;

-- Normalizes an address with letters beyond ASCII. Text without an @ is treated as the part before the @.
CREATE OR REPLACE FUNCTION fairpost.normalize_letters(address text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    at CONSTANT integer := strpos(address, '@');
BEGIN
    IF at = 0 THEN
        RETURN fairpost.normalize_local_part(address);
    END IF;
    RETURN fairpost.normalize_local_part(left(address, at - 1)) || '@' || fairpost.normalize_domain(substr(address, at + 1));
END $$;

-- Two letters count as the same if any language treats them as case variants of one letter. For example, σ and ς are the same because both have the
-- capital Σ. The letters i, ı, I and İ are the same because in Turkish, the capital of i is İ and the capital of ı is I. It is better to send one
-- e-mail too few than to send one to a person who has opted out.
CREATE OR REPLACE FUNCTION fairpost.normalize_local_part(part text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF octet_length(part) = length(part) THEN
        RETURN lower(part COLLATE "C") COLLATE "default";
    END IF;
    RETURN normalize(replace(translate(fairpost.small_letters(normalize(part, NFD)), 'ıς', 'iσ'), U&'i\0307', 'i'), NFC);
END $$;

-- Maps a domain according to UTS 46, and encodes it according to IDNA 2008. Variants of a letter become that letter, and invisible characters are
-- removed.
CREATE OR REPLACE FUNCTION fairpost.normalize_domain(domain text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    unseen CONSTANT text := '[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2064\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0100-\U000e01ef]';
    mapped CONSTANT text := CASE WHEN octet_length(domain) = length(domain) THEN lower(domain COLLATE "C") COLLATE "default"
        ELSE normalize(fairpost.small_letters(normalize(translate(regexp_replace(domain, unseen, '', 'g'), '。｡ϲϹ𝛓𝜍𝝇𝞁𝞻', '..σσσσσσσ'), NFKD)), NFKC) END;
BEGIN
    IF octet_length(mapped) = length(mapped) THEN
        RETURN mapped;
    END IF;
    RETURN (SELECT string_agg(CASE WHEN octet_length(label) = length(label) THEN label ELSE 'xn--' || fairpost.punycode(label) END, '.' ORDER BY place)
            FROM unnest(string_to_array(mapped, '.')) WITH ORDINALITY l(label, place));
END $$;

-- RFC 3492, with its parameters for domains: base 36, tmin 1, tmax 26, skew 38, damp 700, bias 72, n 128.
CREATE OR REPLACE FUNCTION fairpost.punycode(label text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    digits CONSTANT text := 'abcdefghijklmnopqrstuvwxyz0123456789';
    points CONSTANT integer[] := ARRAY(SELECT ascii(substr(label, i, 1)) FROM generate_series(1, length(label)) i);
    basic CONSTANT integer := (SELECT count(*) FROM unnest(points) p WHERE p < 128);
    done integer := basic;
    encoded text := regexp_replace(label, '[^\x01-\x7f]', '', 'g') || CASE WHEN basic > 0 THEN '-' ELSE '' END;
    n integer := 128;
    next_n integer;
    delta bigint := 0;
    bias integer := 72;
    point integer;
    rest bigint;
    k integer;
    threshold integer;
BEGIN
    WHILE done < cardinality(points) LOOP
        next_n := (SELECT min(p) FROM unnest(points) p WHERE p >= n);
        delta := delta + (next_n - n)::bigint * (done + 1);
        n := next_n;
        FOREACH point IN ARRAY points LOOP
            IF point < n THEN
                delta := delta + 1;
            ELSIF point = n THEN
                rest := delta;
                k := 36;
                LOOP
                    threshold := least(greatest(k - bias, 1), 26);
                    EXIT WHEN rest < threshold;
                    encoded := encoded || substr(digits, (threshold + (rest - threshold) % (36 - threshold))::integer + 1, 1);
                    rest := (rest - threshold) / (36 - threshold);
                    k := k + 36;
                END LOOP;
                encoded := encoded || substr(digits, rest::integer + 1, 1);
                delta := delta / CASE WHEN done = basic THEN 700 ELSE 2 END;
                done := done + 1;
                delta := delta + delta / done;
                k := 0;
                WHILE delta > 455 LOOP
                    delta := delta / 35;
                    k := k + 36;
                END LOOP;
                bias := k + 36 * delta / (delta + 38);
                delta := 0;
            END IF;
        END LOOP;
        delta := delta + 1;
        n := n + 1;
    END LOOP;
    RETURN encoded;
END $$;

-- Removes case differences with the simple case folding of Unicode 14, which keeps ς because IDNA distinguishes it. Expects decomposed text (NFD or
-- NFKD), because letters are listed without accents. For each letter, `translate` searches the whole list, so it is called only for text in one of
-- the scripts on the list.
CREATE OR REPLACE FUNCTION fairpost.small_letters(written text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN written !~ '[\u00b5-\u02ff\u0345\u0370-\u058f\u10a0-\u10ff\u13f0-\u13ff\u1c80-\u1cbf\u1e9e\u1efa-\u1eff\u2132\u2160-\u2188\u24b6-\u24cf\u2c00-\u2cff\ua640-\ua7ff\uab70-\uabbf\uff21-\uff3a\U00010400-\U0001e9ff]' THEN lower(written COLLATE "C") COLLATE "default"
        ELSE translate(lower(written COLLATE "C") COLLATE "default",
        'µÆÐØÞĐĦĲĿŁŊŒŦſƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƢƤƦƧƩƬƮƱƲƳƵƷƸƼǄǅǇǈǊǋǤǱǲǶǷȜȠȢȤȺȻȽȾɁɃɄɅɆɈɊɌɎͰͲͶͿΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩϏϐϑϕϖϘ'
        'ϚϜϞϠϢϤϦϨϪϬϮϰϱϴϵϷϹϺϽϾϿЂЄЅІЈЉЊЋЏАБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӃӅӇӉӋ'
        'ӍӔӘӠӨӶӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹႺႻႼႽႾႿჀჁჂჃჄჅჇ'
        'ჍᏸᏹᏺᏻᏼᏽᲀᲁᲂᲃᲄᲅᲆᲇᲈᲐᲑᲒᲓᲔᲕᲖᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮᲯᲰᲱᲲᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿẞỺỼỾℲⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩⅪⅫⅬⅭⅮⅯↃⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿⓀⓁⓂⓃⓄⓅⓆⓇⓈⓉⓊⓋⓌⓍⓎⓏ'
        'ⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗⰘⰙⰚⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⰯⱠⱢⱣⱤⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿⲀⲂⲄⲆⲈⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌⳎⳐⳒⳔⳖⳘⳚⳜ'
        'ⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎꚐꚒꚔꚖꚘꚚꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶꜸꜺꜼꜾꝀꝂꝄꝆꝈꝊꝌꝎꝐꝒꝔꝖꝘꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞖꞘꞚꞜꞞꞠꞢꞤꞦꞨꞪꞫꞬꞭꞮꞰꞱ'
        'ꞲꞳꞴꞶꞸꞺꞼꞾꟀꟂꟄꟅꟆꟇꟉꟐꟖꟘꟵꭰꭱꭲꭳꭴꭵꭶꭷꭸꭹꭺꭻꭼꭽꭾꭿꮀꮁꮂꮃꮄꮅꮆꮇꮈꮉꮊꮋꮌꮍꮎꮏꮐꮑꮒꮓꮔꮕꮖꮗꮘꮙꮚꮛꮜꮝꮞꮟꮠꮡꮢꮣꮤꮥꮦꮧꮨꮩꮪꮫꮬꮭꮮꮯꮰꮱꮲꮳꮴꮵꮶꮷꮸꮹꮺꮻꮼꮽꮾꮿＡＢＣＤＥＦＧＨＩＪＫ'
        'ＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ𐐀𐐁𐐂𐐃𐐄𐐅𐐆𐐇𐐈𐐉𐐊𐐋𐐌𐐍𐐎𐐏𐐐𐐑𐐒𐐓𐐔𐐕𐐖𐐗𐐘𐐙𐐚𐐛𐐜𐐝𐐞𐐟𐐠𐐡𐐢𐐣𐐤𐐥𐐦𐐧𐒰𐒱𐒲𐒳𐒴𐒵𐒶𐒷𐒸𐒹𐒺𐒻𐒼𐒽𐒾𐒿𐓀𐓁𐓂𐓃𐓄𐓅𐓆𐓇𐓈𐓉𐓊𐓋𐓌𐓍𐓎𐓏𐓐𐓑𐓒𐓓𐕰𐕱𐕲𐕳𐕴𐕵𐕶𐕷𐕸𐕹𐕺𐕼𐕽𐕾𐕿𐖀𐖁𐖂𐖃'
        '𐖄𐖅𐖆𐖇𐖈𐖉𐖊𐖌𐖍𐖎𐖏𐖐𐖑𐖒𐖔𐖕𐲀𐲁𐲂𐲃𐲄𐲅𐲆𐲇𐲈𐲉𐲊𐲋𐲌𐲍𐲎𐲏𐲐𐲑𐲒𐲓𐲔𐲕𐲖𐲗𐲘𐲙𐲚𐲛𐲜𐲝𐲞𐲟𐲠𐲡𐲢𐲣𐲤𐲥𐲦𐲧𐲨𐲩𐲪𐲫𐲬𐲭𐲮𐲯𐲰𐲱𐲲𑢠𑢡𑢢𑢣𑢤𑢥𑢦𑢧𑢨𑢩𑢪𑢫𑢬𑢭𑢮𑢯𑢰𑢱𑢲𑢳𑢴𑢵𑢶𑢷𑢸𑢹𑢺𑢻𑢼𑢽𑢾𑢿𖹀𖹁𖹂𖹃𖹄𖹅𖹆𖹇𖹈𖹉𖹊'
        '𖹋𖹌𖹍𖹎𖹏𖹐𖹑𖹒𖹓𖹔𖹕𖹖𖹗𖹘𖹙𖹚𖹛𖹜𖹝𖹞𖹟𞤀𞤁𞤂𞤃𞤄𞤅𞤆𞤇𞤈𞤉𞤊𞤋𞤌𞤍𞤎𞤏𞤐𞤑𞤒𞤓𞤔𞤕𞤖𞤗𞤘𞤙𞤚𞤛𞤜𞤝𞤞𞤟𞤠𞤡' || U&'\0345',
        'μæðøþđħĳŀłŋœŧsɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵƣƥʀƨʃƭʈʊʋƴƶʒƹƽǆǆǉǉǌǌǥǳǳƕƿȝƞȣȥⱥȼƚⱦɂƀʉʌɇɉɋɍɏͱͳͷϳαβγδεζηθικλμνξοπρστυφχψωϗβθφπϙ'
        'ϛϝϟϡϣϥϧϩϫϭϯκρθεϸϲϻͻͼͽђєѕіјљњћџабвгдежзиклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӄӆӈӊӌ'
        'ӎӕәӡөӷӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂⴃⴄⴅⴆⴇⴈⴉⴊⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙⴚⴛⴜⴝⴞⴟⴠⴡⴢⴣⴤⴥⴧ'
        'ⴭᏰᏱᏲᏳᏴᏵвдосттъѣꙋაბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰჱჲჳჴჵჶჷჸჹჺჽჾჿßỻỽỿⅎⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅺⅻⅼⅽⅾⅿↄⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩ'
        'ⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇⱈⱉⱊⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱟⱡɫᵽɽⱨⱪⱬɑɱɐɒⱳⱶȿɀⲁⲃⲅⲇⲉⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍⳏⳑⳓⳕⳗⳙⳛⳝ'
        'ⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏꚑꚓꚕꚗꚙꚛꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷꜹꜻꜽꜿꝁꝃꝅꝇꝉꝋꝍꝏꝑꝓꝕꝗꝙꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞗꞙꞛꞝꞟꞡꞣꞥꞧꞩɦɜɡɬɪʞʇ'
        'ʝꭓꞵꞷꞹꞻꞽꞿꟁꟃꞔʂᶎꟈꟊꟑꟗꟙꟶᎠᎡᎢᎣᎤᎥᎦᎧᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵᎶᎷᎸᎹᎺᎻᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯａｂｃｄｅｆｇｈｉｊｋ'
        'ｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ𐐨𐐩𐐪𐐫𐐬𐐭𐐮𐐯𐐰𐐱𐐲𐐳𐐴𐐵𐐶𐐷𐐸𐐹𐐺𐐻𐐼𐐽𐐾𐐿𐑀𐑁𐑂𐑃𐑄𐑅𐑆𐑇𐑈𐑉𐑊𐑋𐑌𐑍𐑎𐑏𐓘𐓙𐓚𐓛𐓜𐓝𐓞𐓟𐓠𐓡𐓢𐓣𐓤𐓥𐓦𐓧𐓨𐓩𐓪𐓫𐓬𐓭𐓮𐓯𐓰𐓱𐓲𐓳𐓴𐓵𐓶𐓷𐓸𐓹𐓺𐓻𐖗𐖘𐖙𐖚𐖛𐖜𐖝𐖞𐖟𐖠𐖡𐖣𐖤𐖥𐖦𐖧𐖨𐖩𐖪'
        '𐖫𐖬𐖭𐖮𐖯𐖰𐖱𐖳𐖴𐖵𐖶𐖷𐖸𐖹𐖻𐖼𐳀𐳁𐳂𐳃𐳄𐳅𐳆𐳇𐳈𐳉𐳊𐳋𐳌𐳍𐳎𐳏𐳐𐳑𐳒𐳓𐳔𐳕𐳖𐳗𐳘𐳙𐳚𐳛𐳜𐳝𐳞𐳟𐳠𐳡𐳢𐳣𐳤𐳥𐳦𐳧𐳨𐳩𐳪𐳫𐳬𐳭𐳮𐳯𐳰𐳱𐳲𑣀𑣁𑣂𑣃𑣄𑣅𑣆𑣇𑣈𑣉𑣊𑣋𑣌𑣍𑣎𑣏𑣐𑣑𑣒𑣓𑣔𑣕𑣖𑣗𑣘𑣙𑣚𑣛𑣜𑣝𑣞𑣟𖹠𖹡𖹢𖹣𖹤𖹥𖹦𖹧𖹨𖹩𖹪'
        '𖹫𖹬𖹭𖹮𖹯𖹰𖹱𖹲𖹳𖹴𖹵𖹶𖹷𖹸𖹹𖹺𖹻𖹼𖹽𖹾𖹿𞤢𞤣𞤤𞤥𞤦𞤧𞤨𞤩𞤪𞤫𞤬𞤭𞤮𞤯𞤰𞤱𞤲𞤳𞤴𞤵𞤶𞤷𞤸𞤹𞤺𞤻𞤼𞤽𞤾𞤿𞥀𞥁𞥂𞥃' || 'ι') END   -- the iota subscript is an iota
$$;

-- The marks used to find e-mails to an address: one for the first recipient, who is usually the only one, and one for all recipients. Each mark
-- exists in two versions: one for all workspaces and one for this workspace. Two addresses may have the same mark. Indexes use these functions, so
-- changing their results requires a REINDEX.
CREATE OR REPLACE FUNCTION fairpost.address_mark(recipients jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtext(fairpost.normalize_address(recipients #>> '{0,address}'))
$$;

CREATE OR REPLACE FUNCTION fairpost.address_marks(workspace text, recipients jsonb) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN ARRAY(SELECT m FROM jsonb_array_elements(recipients) r, LATERAL (SELECT fairpost.normalize_address(r ->> 'address') AS folded) f,
                 LATERAL (VALUES (hashtext(f.folded)), (fairpost.own_mark(workspace, f.folded))) v(m));
END $$;

CREATE OR REPLACE FUNCTION fairpost.own_mark(workspace text, folded text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtext(workspace || ' ' || folded)
$$;
